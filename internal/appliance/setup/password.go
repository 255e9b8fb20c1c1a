// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// newPassword returns four groups of four letters and digits of base 32, in which
// nothing looks like a one or a zero: 80 bits by chance.
func newPassword() string {
	text := strings.ToLower(rand.Text())
	return text[0:4] + "-" + text[4:8] + "-" + text[8:12] + "-" + text[12:16]
}

// hash makes of a password what /etc/shadow holds. The password goes by a pipe: arguments can be
// seen by every process.
func hash(ctx context.Context, password string) (string, error) {
	var failures []error
	for _, argv := range [][]string{
		{"busybox", "mkpasswd", "-m", "sha512", "-P", "0"},
		{"openssl", "passwd", "-6", "-stdin"},
	} {
		c := exec.CommandContext(ctx, argv[0], argv[1:]...)
		c.Stdin = strings.NewReader(password + "\n")
		out, err := c.Output()
		if text := string(bytes.TrimSpace(out)); err == nil && strings.HasPrefix(text, "$6$") {
			return text, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", argv[0], errors.Join(err, errors.New("no hash"))))
	}
	return "", fmt.Errorf("hash the password: %w", errors.Join(failures...))
}

// withSecret returns the text of a secrets file in which a secret has a value; the others stay. text is that of the file
// with what was changed before, "" for nothing.
func withSecret(path, text, name, value string) (string, error) {
	if text == "" {
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		text = string(old)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, name+":") {
			b.WriteString(strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	fmt.Fprintf(&b, "%s: %q\n", name, value)
	return b.String(), nil
}
