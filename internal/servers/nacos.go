package servers

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// NacosServer is one server of the Nacos protocol: rnacos, since the Java one is in no
// registry. Its Kill is an interrupt: rnacos writes its log behind, and one that is killed
// within seconds of its first start never leads itself again.
type NacosServer struct {
	Process
	addr string
}

// Addr is the HTTP address, "127.0.0.1:port"; gRPC is at port + 1000, as clients expect.
func (s *NacosServer) Addr() string { return s.addr }

// Put publishes a configuration in the public namespace and returns when the server has it.
func (s *NacosServer) Put(dataID, group, content string) {
	s.tb.Helper()
	if err := nacosPut(s.addr, dataID, group, content); err != nil {
		s.tb.Fatalf("nacos: put %s: %v", dataID, err)
	}
}

// Delete removes a configuration.
func (s *NacosServer) Delete(dataID, group string) {
	s.tb.Helper()
	query := url.Values{"dataId": {dataID}, "group": {group}}
	if err := nacosCall(http.MethodDelete, "http://"+s.addr+"/nacos/v1/cs/configs?"+query.Encode(), ""); err != nil {
		s.tb.Fatalf("nacos: delete %s: %v", dataID, err)
	}
}

// Nacos starts an empty server, in 0.7 s.
func Nacos(tb testing.TB) *NacosServer {
	tb.Helper()
	Need(tb, "Nacos (rnacos)")
	path := rnacos(tb)
	port, release := freePorts(tb, 1000, 2000)
	addr, dir := loopback(port), newFolder(tb, "nacos", nil)
	return &NacosServer{addr: addr, Process: launch(tb, command{
		name:  "rnacos",
		path:  path,
		death: syscall.SIGINT,
		env: []string{
			"RNACOS_HTTP_PORT=" + strconv.Itoa(port), "RNACOS_GRPC_PORT=" + strconv.Itoa(port+1000),
			"RNACOS_HTTP_CONSOLE_PORT=" + strconv.Itoa(port+2000), "RUST_LOG=warn",
			"RNACOS_DATA_DIR=" + filepath.Join(dir.path, dataName), "RNACOS_CONFIG_DB_DIR=" + filepath.Join(dir.path, dataName),
		},
		ready: func(int) (string, error) {
			return rnacosVersion, nacosReady(addr, loopback(port+1000), filepath.Join(dir.path, logName))
		},
	}, dir, release)}
}

// rnacos finds the binary: the one TIERLOCK_RNACOS names (a compressed one is unpacked in
// the cache by make servers), that of the cache, of PATH or of cargo.
func rnacos(tb testing.TB) string {
	tb.Helper()
	places := []string{cache(tb, "rnacos-"+rnacosVersion, "bin", "rnacos")}
	if own := os.Getenv("TIERLOCK_RNACOS"); own != "" && !strings.HasSuffix(own, ".xz") {
		places = append([]string{own}, places...)
	}
	if path, err := exec.LookPath("rnacos"); err == nil {
		places = append(places, path)
	}
	if home, err := os.UserHomeDir(); err == nil {
		places = append(places, filepath.Join(home, ".cargo", "bin", "rnacos"))
	}
	for _, path := range places {
		if exists(path) {
			return path
		}
	}
	tb.Fatalf("no rnacos in any of %q: make servers installs it", places)
	return ""
}

// nacosReady writes and reads back. rnacos 0.8.8 sometimes (1 start of 6) loses the thread
// that applies its log while it starts, says so in its own log, takes writes all the same
// and never gives them back: such a start has to be made again.
func nacosReady(addr, grpc, log string) error {
	if text, err := os.ReadFile(log); err == nil && bytes.Contains(text, []byte("panicked at")) {
		return errStillborn
	}
	conn, err := net.DialTimeout("tcp", grpc, time.Second)
	if err != nil {
		return err
	}
	_ = conn.Close()
	if err := nacosPut(addr, "tierlock.ready", "TIERLOCK", "yes"); err != nil {
		return err
	}
	return nacosCall(http.MethodGet, "http://"+addr+"/nacos/v1/cs/configs?dataId=tierlock.ready&group=TIERLOCK", "")
}

func nacosPut(addr, dataID, group, content string) error {
	form := url.Values{"dataId": {dataID}, "group": {group}, "content": {content}}
	return nacosCall(http.MethodPost, "http://"+addr+"/nacos/v1/cs/configs", form.Encode())
}

// nacosCall is one request on a connection of its own: no idle one outlives the test.
func nacosCall(method, target, form string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequest(method, target, strings.NewReader(form))
	if err != nil {
		return err
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return err
	}
	if said := strings.TrimSpace(string(body)); resp.StatusCode != http.StatusOK || said == "false" {
		return fmt.Errorf("%s: %s", resp.Status, said)
	}
	return nil
}
