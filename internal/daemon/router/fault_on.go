// SPDX-License-Identifier: Apache-2.0

//go:build minne_faults

package router

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// faults returns the fault that the environment asks for:
//
//	MINNE_FAULT=POINT[@N]:kill|error|enospc
//
// At the Nth pass (the first by default) through the named point, the daemon
// gets SIGKILL, or the point fails, or fails as a full disk does. Points are the
// steps of a commit (record, kernel, routing, fast-path, forwarding, commit,
// each also with -done), of going back (the same with back- in front, revert),
// of a confirmation (confirm, confirm-done), and of each write of a revision
// (store-write, store-temp, store-renamed).
//
// Only binaries built with the tag minne_faults have this.
func faults() (func(point string) error, error) {
	spec := os.Getenv("MINNE_FAULT")
	if spec == "" {
		return nil, nil
	}
	where, action, ok := strings.Cut(spec, ":")
	point, nth, counted := strings.Cut(where, "@")
	pass := 1
	if counted {
		n, err := strconv.Atoi(nth)
		ok = ok && err == nil
		pass = n
	}
	if !ok {
		return nil, fmt.Errorf("MINNE_FAULT=%s: expected POINT[@N]:kill|error|enospc", spec)
	}
	var mu sync.Mutex
	return func(p string) error {
		mu.Lock()
		defer mu.Unlock()
		if p != point {
			return nil
		}
		if pass--; pass != 0 {
			return nil
		}
		return strike(p, action)
	}, nil
}

func strike(point, action string) error {
	switch action {
	case "kill":
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			return err
		}
		select {} // until the signal arrives
	case "enospc":
		return unix.ENOSPC
	}
	return errors.New("fault injected at " + point)
}
