package daemon

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tierlock/tierlock"
	"github.com/tierlock/tierlock/reconcile"
	"github.com/tierlock/tierlock/reconcile/kafkasource"
)

// HookConfig checks and repairs one business type. It is checked by check, else by webhook;
// it is repaired by repair, publish or webhook, whichever is given, and not at all without.
type HookConfig struct {
	Action  string         `yaml:"action"`  // repair
	Check   string         `yaml:"check"`   // a query with one integer: how much is wrong now; see reconcile.SQLHookConfig for the words in braces
	Repair  []string       `yaml:"repair"`  // statements
	Webhook *WebhookConfig `yaml:"webhook"` // none
	Publish *PublishConfig `yaml:"publish"` // none

	// Apply says whether --apply repairs this type; required then, where there is a repair.
	Apply     string        `yaml:"apply"`          // auto, approve or never
	Over      int64         `yaml:"approve_over"`   // 0, no bound: with auto, what is wrong by more waits for people
	Approvers int           `yaml:"approvers"`      // 1 or 2 different people; 1
	Valid     time.Duration `yaml:"approval_valid"` // 24h: how long a yes counts
}

// consent is the rule of the file.
func (h *HookConfig) consent() reconcile.Consent {
	return reconcile.Consent{Apply: reconcile.Apply(h.Apply), Over: h.Over, Approvers: h.Approvers, Valid: h.Valid}
}

// repairs tells whether the hook does more than look.
func (h *HookConfig) repairs() bool {
	return len(h.Repair) > 0 || h.Publish != nil || h.Webhook != nil && !h.Webhook.CheckOnly
}

// WebhookConfig is the business service that is asked over HTTP.
type WebhookConfig struct {
	URL        string        `yaml:"url"`         // http or https; required
	SecretEnv  string        `yaml:"secret_env"`  // name of the variable that holds the secret, 32 bytes or more
	SecretFile string        `yaml:"secret_file"` // or the file
	Timeout    time.Duration `yaml:"timeout"`     // 5s: one question
	CheckOnly  bool          `yaml:"check_only"`  // false: it repairs, unless publish does
	TLS        *TLSConfig    `yaml:"tls"`         // none: the system's roots
}

// PublishConfig is the message that repairs, sent to the Kafka of audit.kafka.
type PublishConfig struct {
	Topic   string `yaml:"topic"`   // required; it must exist
	Message string `yaml:"message"` // a query with one text: the message; reconcile.Republished as JSON
}

// checkHooks finds what is wrong in the file; secrets are read by whoever opens the hooks.
func (r *ReconcileConfig) checkHooks(f *faults) {
	for _, name := range slices.Sorted(maps.Keys(r.Hooks)) {
		h, at := r.Hooks[name], "reconcile.hooks."+name+"."
		f.under(at, h.check())
		if (h.Check != "" || h.Publish != nil && h.Publish.Message != "") && r.Database == nil {
			f.add("reconcile.hooks."+name, "", "looks at the business database: want reconcile.database")
		}
		if r.Database == nil && h.repairs() && (h.Apply == string(reconcile.ApplyApprove) || h.Over > 0) {
			f.add(at+"apply", h.Apply, "waits for people, whose answers are kept in reconcile.database")
		}
	}
}

func (h *HookConfig) check() error {
	var f faults
	switch {
	case h.Check == "" && h.Webhook == nil:
		f.add("check", "", "want a query that returns how much is wrong, or a webhook")
	case h.Check != "" && strings.TrimSpace(h.Check) == "":
		f.add("check", h.Check, "want a query that returns how much is wrong")
	case h.Check == "" && len(h.Repair) > 0:
		f.add("repair", h.Repair[0], "want check beside it: both are one transaction")
	}
	if len(h.Repair) > 0 && h.Publish != nil {
		f.add("publish", h.Publish.Topic, "want either repair or publish")
	}
	if w := h.Webhook; w != nil {
		_, err := reconcile.NewWebhook(reconcile.WebhookConfig{URL: w.URL, Secret: make([]byte, 32), Timeout: w.Timeout})
		f.under("webhook.", err)
		if (w.SecretEnv == "") == (w.SecretFile == "") {
			f.add("webhook.secret_env", w.SecretEnv, "want secret_env or secret_file")
		}
		if h.Check != "" && (w.CheckOnly || len(h.Repair) > 0 || h.Publish != nil) {
			f.add("webhook", w.URL, "has nothing to do: check looks, and repair or publish repairs")
		}
	}
	consent := h.consent()
	f.under("", consent.Validate())
	if p := h.Publish; p != nil && p.Topic == "" {
		f.add("publish.topic", "", "is required")
	}
	return errors.Join(f.errs...)
}

// ruled refuses a run with --apply where a type has no word on it: nothing is repaired that
// nobody has decided to have repaired.
func (r *ReconcileConfig) ruled() error {
	var f faults
	for _, name := range slices.Sorted(maps.Keys(r.Hooks)) {
		if h := r.Hooks[name]; h.repairs() && h.Apply == "" {
			f.add("reconcile.hooks."+name+".apply", "", "is required with --apply: say auto, approve or never")
		}
	}
	return errors.Join(f.errs...)
}

// openHooks makes the hooks of the file. conf says how Kafka is reached.
func (r *Reconciler) openHooks(conf kafkasource.Config) (map[string]reconcile.Hook, error) {
	hooks := map[string]reconcile.Hook{}
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Reconcile.Hooks)) {
		h := r.cfg.Reconcile.Hooks[name]
		hook, err := r.openHook(h, conf)
		if err != nil {
			return nil, prefixed("reconcile.hooks."+name+".", err)
		}
		hook.Consent = h.consent()
		hooks[name] = hook
	}
	return hooks, nil
}

func (r *Reconciler) openHook(h HookConfig, conf kafkasource.Config) (hook reconcile.Hook, err error) {
	if h.Check != "" {
		hook, err = reconcile.NewSQLHook(reconcile.SQLHookConfig{DB: r.db, Dialect: dialect, Action: h.Action, Check: h.Check, Repair: h.Repair})
		if err != nil {
			return hook, err
		}
	}
	if h.Webhook != nil {
		asked, err := r.openWebhook(h)
		if err != nil {
			return hook, prefixed("webhook.", err)
		}
		if h.Check != "" {
			asked.Check = hook.Check
		}
		hook = asked
	}
	if h.Publish != nil {
		return r.openPublish(h, hook.Check, conf)
	}
	return hook, nil
}

func (r *Reconciler) openWebhook(h HookConfig) (reconcile.Hook, error) {
	w := h.Webhook
	secret, err := readSecret("secret", w.SecretEnv, w.SecretFile)
	if err != nil {
		return reconcile.Hook{}, err
	}
	roots, err := w.TLS.load()
	if err != nil {
		return reconcile.Hook{}, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = roots
	r.opened("webhook", func(context.Context) error { transport.CloseIdleConnections(); return nil })
	hook, err := reconcile.NewWebhook(reconcile.WebhookConfig{
		URL: w.URL, Secret: []byte(secret), Action: h.Action, CheckOnly: w.CheckOnly || h.Publish != nil, Timeout: w.Timeout,
		Client: &http.Client{Transport: transport},
	})
	return hook, secretField(w, err)
}

// secretField says of a fault of the secret where the file has it.
func secretField(w *WebhookConfig, err error) error {
	var faults []error
	for _, f := range tierlock.Invalids(err) {
		if f.Field == "secret" && w.SecretFile != "" {
			f = &tierlock.InvalidError{Field: "secret_file", Value: f.Value, Rule: f.Rule}
		} else if f.Field == "secret" {
			f = &tierlock.InvalidError{Field: "secret_env", Value: f.Value, Rule: f.Rule}
		}
		faults = append(faults, f)
	}
	return errors.Join(faults...)
}

func (r *Reconciler) openPublish(h HookConfig, check reconcile.Checker, conf kafkasource.Config) (reconcile.Hook, error) {
	publisher, err := kafkasource.NewPublisher(conf, h.Publish.Topic)
	if err != nil {
		return reconcile.Hook{}, prefixed("publish.", err)
	}
	r.opened("publisher", func(context.Context) error { return publisher.Close() })
	hook, err := reconcile.NewPublishHook(reconcile.PublishHookConfig{
		Publisher: publisher, Check: check, Action: h.Action, DB: r.db, Dialect: dialect, Message: h.Publish.Message,
	})
	return hook, prefixed("publish.", err)
}
