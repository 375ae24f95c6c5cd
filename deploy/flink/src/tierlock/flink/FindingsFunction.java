package tierlock.flink;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.table.annotation.DataTypeHint;
import org.apache.flink.table.annotation.FunctionHint;
import org.apache.flink.table.functions.TableFunction;
import org.apache.flink.types.Row;

/** tierlock_findings(default_error_us, group, holds): the groups that overlapped among the holds of one island. */
@FunctionHint(output = @DataTypeHint(Rows.FINDING))
public class FindingsFunction extends TableFunction<Row> {
    private static final long serialVersionUID = 1;

    public void eval(Long defaultError, Integer group, @DataTypeHint("ARRAY<" + Rows.HOLD + ">") Row[] island) {
        List<Hold> holds = new ArrayList<>(island.length);
        for (Row r : island) {
            holds.add(Rows.hold(r));
        }
        for (Finding f : Groups.findings(new Rule(defaultError, group), holds)) {
            collect(Rows.of(f));
        }
    }
}
