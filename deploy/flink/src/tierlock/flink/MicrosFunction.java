package tierlock.flink;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.functions.ScalarFunction;

/** tierlock_micros(time): Unix microseconds of an event's time, null for what is none. */
public class MicrosFunction extends ScalarFunction {
    private static final long serialVersionUID = 1;

    public Long eval(String time) {
        if (time == null) {
            return null;
        }
        try {
            return micros(OffsetDateTime.parse(time).toInstant());
        } catch (DateTimeException e) {
            return null;
        }
    }

    public Long eval(@DataTypeHint("TIMESTAMP_LTZ(3)") Instant time) {
        return time == null ? null : micros(time);
    }

    private static long micros(Instant t) {
        return ChronoUnit.MICROS.between(Instant.EPOCH, t);
    }
}
