// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// program is minne-procbench for this architecture, if it was there when minne was compiled.
var program []byte

// ErrNotEmbedded is what a minne says that was built without the program.
var ErrNotEmbedded = errors.New("this minne was built for " + runtime.GOARCH +
	" without minne-procbench: run minne-procbench as well, or build minne by make with the C compiler of that architecture")

// Program is minne-procbench, ready to be executed.
type Program struct{ file *os.File }

// Load puts the program into memory from where it can be executed; Close frees it.
func Load() (*Program, error) {
	if len(program) == 0 {
		return nil, ErrNotEmbedded
	}
	const name = "minne-procbench"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3, where all of them can be executed
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("minne-procbench: memfd_create: %w", err)
	}
	p := &Program{os.NewFile(uintptr(fd), name)}
	if _, err := p.file.Write(program); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("minne-procbench: put it into memory: %w", err)
	}
	// Nobody changes what will be executed.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("minne-procbench: seal it in memory: %w", err)
	}
	return p, nil
}

// Path is where the program can be executed from as long as it is not closed and this process lives. It goes through this
// process, not through the one that executes it, whose descriptors may be others.
func (p *Program) Path() string {
	return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.file.Fd())
}

// Close frees the program's memory; what runs goes on.
func (p *Program) Close() error { return p.file.Close() }
