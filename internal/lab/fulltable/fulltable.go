// SPDX-License-Identifier: Apache-2.0

// Package fulltable reads a real Internet routing table for tests, benchmarks and the demo.
//
// The prefixes are those that the module github.com/gaissmai/bart carries as
// test data: 901,899 of IPv4 and 160,147 of IPv6, taken from a BGP router. The
// module is fetched through the Go module proxy like any other dependency and
// stays in the module cache, so nothing large lives in this repository. The
// version is fixed here: every figure in docs/ is about the same table.
package fulltable

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	module = "github.com/gaissmai/bart@v0.30.0"
	file   = "internal/tests/testdata/prefixes.txt.gz"

	// IPv4Prefixes and IPv6Prefixes are how many prefixes the table has of each family.
	IPv4Prefixes = 901_899
	IPv6Prefixes = 160_147
)

// Load returns the table's prefixes of both families, masked, in the file's order, each once.
// It needs the go command, and the network when the module is not in the module cache yet.
func Load() (v4, v6 []netip.Prefix, err error) {
	dir, err := moduleDir()
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(filepath.Join(dir, file))
	if err != nil {
		return nil, nil, fmt.Errorf("full table: %w", err)
	}
	defer f.Close()
	if v4, v6, err = read(f); err != nil {
		return nil, nil, fmt.Errorf("full table %s: %w", f.Name(), err)
	}
	return v4, v6, nil
}

// moduleDir returns where the module is unpacked in the module cache, fetching it when it is not there.
func moduleDir() (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Error != "" {
		return "", fmt.Errorf("full table: fetch %s: %s", module, answer.Error)
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("full table: go mod download %s: %w", module, err)
	}
	return answer.Dir, nil
}

// read parses gzipped lines of one prefix each.
func read(r io.Reader) (v4, v6 []netip.Prefix, err error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, nil, err
	}
	v4 = make([]netip.Prefix, 0, IPv4Prefixes)
	v6 = make([]netip.Prefix, 0, IPv6Prefixes)
	lines := bufio.NewScanner(unzipped)
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		p, err := netip.ParsePrefix(string(text))
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		if p = p.Masked(); p.Addr().Is4() {
			v4 = append(v4, p)
		} else {
			v6 = append(v6, p)
		}
	}
	return v4, v6, lines.Err()
}
