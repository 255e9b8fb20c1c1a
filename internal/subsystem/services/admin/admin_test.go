// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minne/internal/model/config"
)

const hash = "$6$abcdefgh$bp46WUxDu2cphMRE0PvVJlqas2imuSq186YS793XKfmqn9XUEL17HECskUTZInaNigNndLLYc7A6yWBmFEFn3/"

func desired(t *testing.T) Desired {
	t.Helper()
	secrets, err := config.ParseSecrets("secrets.yaml", []byte(`admin-password: "`+hash+`"`))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Render(&config.Config{System: config.System{Admin: config.Admin{Password: "admin-password"}}}, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Only the hash of admin changes, once, and it is printed nowhere.
func TestPassword(t *testing.T) {
	const before, after = "root:*:19000:0:99999:7:::\nadmin:%s:19000:0:99999:7:::\nadministrator:!:19000::::::\n", 0o640
	var log bytes.Buffer
	p := New(true, slog.New(slog.NewTextHandler(&log, nil)))
	p.file = filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(p.file, fmt.Appendf(nil, before, "*"), after); err != nil {
		t.Fatal(err)
	}
	d := desired(t)
	changes, err := p.Plan(t.Context(), d)
	if err != nil || len(changes) != 1 || strings.Contains(fmt.Sprint(changes), "$6$") {
		t.Errorf("%v, %v", changes, err)
	}
	if err := p.Apply(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(p.file); err != nil || string(b) != fmt.Sprintf(before, hash) {
		t.Errorf("%q, %v", b, err)
	}
	if st, err := os.Stat(p.file); err != nil || st.Mode().Perm() != after {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if changes, err := p.Plan(t.Context(), d); err != nil || changes != nil {
		t.Errorf("again: %v, %v", changes, err)
	}
	slog.New(slog.NewTextHandler(&log, nil)).Info("test", "desired", d)
	if text := log.String() + fmt.Sprintf("%v %+v %#v %s", d, d, d, d); strings.Contains(text, "$6$") {
		t.Errorf("the hash is printed: %s", text)
	}
}

func TestNoAdmin(t *testing.T) {
	p := New(true, slog.New(slog.DiscardHandler))
	p.file = filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(p.file, []byte("root:*:19000:0:99999:7:::\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Plan(t.Context(), desired(t)); err == nil || !strings.Contains(err.Error(), "adduser admin") {
		t.Errorf("%v", err)
	}
	beside := New(false, slog.New(slog.DiscardHandler)) // shares its host with others: the users are not its own
	if changes, err := beside.Plan(t.Context(), desired(t)); changes != nil || err != nil {
		t.Errorf("%v, %v", changes, err)
	}
	if err := p.Apply(t.Context(), Desired{}); err != nil {
		t.Error(err)
	}
}

// Key logins need an account that is not locked: sshd without PAM refuses those whose hash begins with
// an exclamation mark. What useradd made is cured; what somebody locked is said.
func TestKeysOfALockedAccountAsRoot(t *testing.T) {
	keys, err := Render(&config.Config{
		System:   config.System{Admin: config.Admin{SSHKeys: []string{"ssh-ed25519 AAAA"}}},
		Services: config.Services{SSH: &config.SSH{Interfaces: []string{"lan"}}},
	}, config.Secrets{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before, after string
		own           bool
		says          string // the error; "" for none
	}{
		{"!", "*", true, ""},
		{"!!", "*", true, ""}, // as Red Hat's useradd writes it
		{"!*", "*", true, ""},
		{"*", "*", true, ""},
		{hash, hash, true, ""},
		{"!" + hash, "!" + hash, true, "usermod -U admin"}, // usermod -L: somebody meant it
		{"!", "!", false, "usermod -p '*' admin"},
		{"*", "*", false, ""},
	} {
		p := New(c.own, slog.New(slog.DiscardHandler))
		p.file = filepath.Join(t.TempDir(), "shadow")
		if err := os.WriteFile(p.file, []byte("root:*:19000::::::\nadmin:"+c.before+":19000::::::\n"), 0o640); err != nil {
			t.Fatal(err)
		}
		changes, err := p.Plan(t.Context(), keys)
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) || (len(changes) == 1) != (c.before != c.after) {
			t.Errorf("%+v: %v, %v", c, changes, err)
		}
		if err != nil && strings.Contains(err.Error(), hash) {
			t.Errorf("the hash is told: %v", err)
		}
		if applied := p.Apply(t.Context(), keys); (applied != nil) != (c.says != "") {
			t.Errorf("%+v: apply: %v", c, applied)
		}
		if b, err := os.ReadFile(p.file); err != nil || string(b) != "root:*:19000::::::\nadmin:"+c.after+":19000::::::\n" {
			t.Errorf("%+v: %q, %v", c, b, err)
		}
	}
	// A host without that user is told of by the SSH login itself.
	p := New(true, slog.New(slog.DiscardHandler))
	p.file = filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(p.file, []byte("root:*:19000::::::\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if changes, err := p.Plan(t.Context(), keys); changes != nil || err != nil {
		t.Errorf("no user: %v, %v", changes, err)
	}
}
