package tierlock.flink;

import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import org.apache.flink.table.functions.ScalarFunction;

/** tierlock_time(micros): a time as events carry it, RFC 3339 in UTC with six digits of a second. */
public class TimeFunction extends ScalarFunction {
    private static final long serialVersionUID = 1;
    private static final DateTimeFormatter FORMAT = DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);

    public String eval(Long micros) {
        return micros == null ? null : FORMAT.format(Instant.EPOCH.plus(micros, ChronoUnit.MICROS));
    }
}
