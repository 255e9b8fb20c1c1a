// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"minne/internal/appliance/slot"
	"minne/internal/base/keyfile"
)

// KeysDir holds the public keys whose upgrades are taken, one PEM file each, as
// the image brings them; LocalKeysDir holds those that the operator added.
const (
	KeysDir      = "/usr/share/minne/upgrade-keys"
	LocalKeysDir = "/etc/minne/upgrade-keys"
)

// Keys reads the public keys of directories; one that is not there has none.
func Keys(dirs ...string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.pub"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			key, err := keyfile.Public(file)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// Limits of a download: what is not an upgrade must not be waited for.
const (
	answerTime = 30 * time.Second // for a server to begin its answer
	stallTime  = 60 * time.Second // without a byte
)

// Source is an upgrade file, local or behind a URL, of which only the end has been read.
type Source struct {
	Name    string
	Trailer slot.Trailer
	open    func(ctx context.Context) (io.ReadCloser, error) // the payload from its first byte on
}

// Open looks at an upgrade file: a path, or a URL with http or https. What is told
// of it is not trusted before its signature was checked.
func Open(ctx context.Context, name string) (*Source, error) {
	if strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") {
		return openURL(ctx, name)
	}
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		return nil, fmt.Errorf("%s: expected a file, or a URL with http or https, not %s", name, scheme)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s := &Source{Name: name, open: func(context.Context) (io.ReadCloser, error) { return os.Open(name) }}
	if s.Trailer, err = slot.Read(f, info.Size()); err != nil {
		return nil, fmt.Errorf("%s: %w: expected an upgrade file of Minne", name, err)
	}
	if s.Trailer.Size != info.Size()-slot.TrailerSize {
		return nil, fmt.Errorf("%s: %d bytes, expected %d: the file is incomplete or changed", name, info.Size(), s.Trailer.Size+slot.TrailerSize)
	}
	return s, nil
}

// client keeps to http and https, and follows few redirections.
var client = &http.Client{
	Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: answerTime}).DialContext,
		TLSHandshakeTimeout:   answerTime,
		ResponseHeaderTimeout: answerTime,
	},
	CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return errors.New("more than 5 redirections")
		}
		return nil
	},
}

func get(ctx context.Context, url, ranged string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if ranged != "" {
		q.Header.Set("Range", ranged)
	}
	answer, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	want := http.StatusOK
	if ranged != "" {
		want = http.StatusPartialContent
	}
	if answer.StatusCode != want {
		answer.Body.Close()
		if ranged != "" && answer.StatusCode == http.StatusOK {
			return nil, fmt.Errorf("%s: the server does not support range requests: download the file, then: minne upgrade FILE", url)
		}
		return nil, fmt.Errorf("%s: the server answered %s", url, answer.Status)
	}
	return answer, nil
}

// openURL reads the trailer alone: a bad signature is told before anything is fetched.
func openURL(ctx context.Context, url string) (*Source, error) {
	answer, err := get(ctx, url, fmt.Sprintf("bytes=-%d", slot.TrailerSize))
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, slot.TrailerSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	var first, last, size int64
	if _, err := fmt.Sscanf(answer.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err != nil ||
		size < slot.TrailerSize || len(raw) != slot.TrailerSize || first != size-slot.TrailerSize {
		return nil, fmt.Errorf("%s: %w: expected an upgrade file of Minne", url, slot.ErrNoTrailer)
	}
	s := &Source{Name: url}
	if s.Trailer, err = slot.Read(tail{raw, size}, size); err != nil {
		return nil, fmt.Errorf("%s: %w: expected an upgrade file of Minne", url, err)
	}
	s.open = func(ctx context.Context) (io.ReadCloser, error) {
		ctx, stop := context.WithCancelCause(ctx)
		answer, err := get(ctx, url, "")
		if err != nil {
			stop(nil)
			return nil, err
		}
		return &watched{body: answer.Body, stop: stop, timer: time.AfterFunc(stallTime, func() {
			stop(fmt.Errorf("%s: no data for %v", url, stallTime))
		}), ctx: ctx}, nil
	}
	return s, nil
}

// tail is the end of a file of size bytes.
type tail struct {
	raw  []byte
	size int64
}

func (t tail) ReadAt(p []byte, off int64) (int, error) {
	begin := off - (t.size - int64(len(t.raw)))
	if begin < 0 || begin > int64(len(t.raw)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, t.raw[begin:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// watched is a download that ends when nothing comes any more.
type watched struct {
	body  io.ReadCloser
	ctx   context.Context
	stop  context.CancelCauseFunc
	timer *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if n > 0 {
		w.timer.Reset(stallTime)
	}
	if cause := context.Cause(w.ctx); err != nil && cause != nil {
		err = cause
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	w.stop(nil)
	return w.body.Close()
}
