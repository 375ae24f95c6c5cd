package tierlock.flink;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.FunctionHint;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.types.Row;

/** tierlock_holds(key, holder, events): the holds that all events of one holder of one key tell of. */
@FunctionHint(output = @DataTypeHint(Rows.HOLD))
public class HoldsFunction extends TableFunction<Row> {
    private static final long serialVersionUID = 1;

    public void eval(String key, String holder, @DataTypeHint("ARRAY<" + Rows.EVENT + ">") Row[] events) {
        List<Event> told = new ArrayList<>(events.length);
        for (Row r : events) {
            told.add(Rows.event(r));
        }
        for (Hold h : Holds.of(key, holder, told)) {
            collect(Rows.of(h));
        }
    }
}
