// SPDX-License-Identifier: Apache-2.0

// Package nativetest compiles small C programs for tests of the headers in bpf/algo.
package nativetest

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

var compilers = []string{"clang-19", "clang", "gcc", "cc"}

// Checked are the flags under which every access outside memory and every undefined operation ends a program.
var Checked = []string{"-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}

// Compile compiles a source with the first C compiler that there is; headers are those of bpf/algo below root, the
// repository, and read_all.h. Any warning is an error. The program is put into dir.
func Compile(dir, root, source string, flags ...string) (program string, err error) {
	for _, name := range compilers {
		cc, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		program = filepath.Join(dir, strings.TrimSuffix(filepath.Base(source), ".c")+strings.ReplaceAll(strings.Join(flags, ""), "/", "_"))
		args := append([]string{"-std=gnu99", "-Wall", "-Wextra", "-Werror", "-I" + filepath.Join(root, "bpf/algo"), "-I" + filepath.Join(root, "internal/testing/nativetest"), "-o", program, source}, flags...)
		if said, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", cc, source, err, said)
		}
		return program, nil
	}
	return "", errors.New("no C compiler: looked for " + strings.Join(compilers, ", ") + "; ./dev installs clang")
}
