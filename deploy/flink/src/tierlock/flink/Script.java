package tierlock.flink;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The script's text, word by word and statement by statement. */
final class Script {
    private static final Pattern WORD = Pattern.compile("\\$\\{([a-z_]+)}");

    private Script() {}

    /** The statements, with every ${word} in place. A statement ends with a semicolon at the end of its line. */
    static List<String> statements(String text, Map<String, String> words) {
        List<String> out = new ArrayList<>();
        StringBuilder statement = new StringBuilder();
        for (String line : text.split("\n")) {
            if (line.stripLeading().startsWith("--")) {
                continue;
            }
            statement.append(fill(line, words)).append('\n');
            if (line.stripTrailing().endsWith(";")) {
                out.add(statement.substring(0, statement.lastIndexOf(";")).strip());
                statement.setLength(0);
            }
        }
        if (!statement.toString().isBlank()) {
            throw new IllegalArgumentException("the script's last statement has no semicolon");
        }
        return out;
    }

    private static String fill(String line, Map<String, String> words) {
        return WORD.matcher(line).replaceAll(m -> {
            String value = words.get(m.group(1));
            if (value == null) {
                throw new IllegalArgumentException("the script asks for ${" + m.group(1) + "}, which is no word");
            }
            return Matcher.quoteReplacement(value);
        });
    }
}
