package api

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tierlock/tierlock/gateway"
)

// Config of an API.
type Config struct {
	Gateway *gateway.Gateway // required
	Logger  *slog.Logger     // nil: discard

	// Acquires is how many try and lock calls may be under way at once; what comes on top
	// is answered 429 at once, so that waiters cannot pile up without end. Unlock, held and
	// renew are never refused. Default 4096.
	Acquires int

	// Remote says that the listener may be reached from other machines. Otherwise a
	// request must name a loopback host, so that no web page can reach the daemon by
	// pointing a name of its own at 127.0.0.1.
	Remote bool

	// Admin is where the admin pages are, host:port. It is told to whoever asks for one of
	// them here, unless Remote: what is asked from elsewhere gets no map of the host.
	Admin string
}

// API serves one gateway. All methods may be called at once from any goroutine.
type API struct {
	gw     *gateway.Gateway
	log    *slog.Logger
	slots  chan struct{}
	remote bool
	admin  string
}

// New returns the API of cfg.Gateway.
func New(cfg Config) *API {
	if cfg.Acquires <= 0 {
		cfg.Acquires = 4096
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &API{gw: cfg.Gateway, log: cfg.Logger, slots: make(chan struct{}, cfg.Acquires), remote: cfg.Remote, admin: cfg.Admin}
}

// Handler serves the five methods, see docs/http.md.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/try", a.limited(a.try))
	mux.HandleFunc("POST /v1/lock", a.limited(a.lock))
	mux.HandleFunc("POST /v1/unlock", a.unlock)
	mux.HandleFunc("POST /v1/held", a.held)
	mux.HandleFunc("POST /v1/renew", a.renew)
	for _, path := range []string{"/v1/try", "/v1/lock", "/v1/unlock", "/v1/held", "/v1/renew"} {
		mux.HandleFunc(path, onlyPost)
	}
	mux.HandleFunc("/", a.notFound)
	return a.recovered(a.local(http.NewCrossOriginProtection().Handler(mux)))
}

func onlyPost(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", http.MethodPost)
	writeJSON(w, http.StatusMethodNotAllowed, problem{Error: "method_not_allowed", Rule: "want POST"})
}

func (a *API) notFound(w http.ResponseWriter, r *http.Request) {
	rule := "want /v1/try, /v1/lock, /v1/unlock, /v1/held or /v1/renew"
	if slices.Contains(adminPages, r.URL.Path) {
		rule = "this is the data port (listen.data): " + r.URL.Path + " is at the admin port (listen.admin)"
		if a.admin != "" && !a.remote {
			rule += ", " + a.admin
		}
	}
	writeJSON(w, http.StatusNotFound, problem{Error: "not_found", Rule: rule})
}

// limited answers 429 where all slots are taken.
func (a *API) limited(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
			next(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			writeJSON(w, http.StatusTooManyRequests, problem{Error: "overloaded"})
		}
	}
}

// local refuses a request that names another host than this machine, see Config.Remote.
func (a *API) local(next http.Handler) http.Handler {
	if a.remote {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) {
			writeJSON(w, http.StatusForbidden, problem{Error: "forbidden", Field: "host", Rule: "want a loopback host"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func loopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// recovered turns a panic into an answer: 500, and the stack in the log. A lock that was
// granted before the panic is dealt with where it was granted, see grant.
func (a *API) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // the server's own way to drop a connection
			}
			a.log.ErrorContext(r.Context(), "panic in a request", slog.String("path", r.URL.Path), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			writeJSON(w, http.StatusInternalServerError, problem{Error: "internal"})
		}()
		next.ServeHTTP(w, r)
	})
}
