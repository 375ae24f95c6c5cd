package daemon

import (
	"errors"
	"os"
	"strings"

	"github.com/tierlock/tierlock"
)

// Secret is a password that stands elsewhere: in an environment variable or a file (as
// container platforms mount them), never in the configuration itself, which people paste
// into tickets.
type Secret struct {
	Env  string `yaml:"password_env"`  // name of the variable
	File string `yaml:"password_file"` // path; one trailing line end is dropped
}

// value reads it; no secret is "". The error never shows it.
func (s Secret) value() (string, error) {
	return readSecret("password", s.Env, s.File)
}

// readSecret reads <field>_env or <field>_file.
func readSecret(field, env, file string) (string, error) {
	switch {
	case env != "" && file != "":
		return "", tierlock.Invalid(field+"_file", file, "want either "+field+"_env or "+field+"_file")
	case env != "":
		if v := os.Getenv(env); v != "" {
			return v, nil
		}
		return "", tierlock.Invalid(field+"_env", env, "the variable is not set")
	case file != "":
		text, err := os.ReadFile(file)
		if err != nil {
			return "", tierlock.Invalid(field+"_file", file, "cannot be read: "+withoutPath(err))
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"), nil
	}
	return "", nil
}

// withoutPath is err's text for a message that names the path already.
func withoutPath(err error) string {
	if pathErr := (*os.PathError)(nil); errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err.Error()
}
