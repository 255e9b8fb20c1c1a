// SPDX-License-Identifier: Apache-2.0

// Package testuml runs a test binary as the first process of a User-Mode Linux
// kernel, for what the machine's own kernel may lack: VLANs, VRFs, bonding.
//
// A package whose tests need that calls Main from TestMain. On the machine, Main
// copies the test binary and a freshly built minne beside the packaged kernel
// (scripts/fetch-uml.sh) and boots it with the test binary as init. Inside, the
// same Main mounts what a process expects, loads the kernel modules and runs the
// tests; their output is the machine's output. Nothing touches the machine's own
// network: the kernel inside has none of its devices.
package testuml

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// deadline bounds a whole run, boot included.
	deadline = 5 * time.Minute
	// begin separates the kernel's messages from the tests' output.
	begin = "minne-uml: tests begin"
	// ready tells the process inside that everything is mounted and loaded.
	ready = "MINNE_UML_READY"
)

// job is what the machine tells the tests inside, as job.json beside the binary.
type job struct {
	Args    []string // flags of go test
	Modules []string // kernel modules to load, without ".ko"
}

// Main runs the tests of m inside User-Mode Linux with these kernel modules and exits with their result.
func Main(m *testing.M, modules ...string) {
	if os.Getpid() == 1 {
		os.Exit(inside(m))
	}
	code, err := boot(job{Args: insideFlags(os.Args[1:]), Modules: modules})
	if err != nil {
		fmt.Fprintf(os.Stderr, "testuml: %v\n", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// insideFlags leaves out the flags that name files of the machine.
func insideFlags(flags []string) []string {
	return slices.DeleteFunc(slices.Clone(flags), func(f string) bool {
		return strings.HasPrefix(f, "-test.testlogfile=") || strings.HasPrefix(f, "-test.gocoverdir=")
	})
}

// Minne is the path of the minne binary inside, built from this tree.
func Minne() string { return filepath.Join(runDir(), "minne") }

// runDir is where the machine left binary and job, as the process inside sees it.
func runDir() string {
	exe, err := os.Executable()
	if err != nil {
		return "/"
	}
	return filepath.Dir(exe)
}

// boot is the machine's side: it returns the exit code of the tests inside.
func boot(j job) (code int, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return 0, err
	}
	root := filepath.Join(cache, "minne", "uml-trixie")
	top, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	fetch := exec.Command("sh", filepath.Join(top, "scripts/fetch-uml.sh"), root)
	fetch.Stderr = os.Stderr
	if err := fetch.Run(); err != nil {
		return 0, fmt.Errorf("fetch User-Mode Linux from Debian's packages: %w", err)
	}

	dir, err := os.MkdirTemp(filepath.Join(root, "tests"), "run-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := prepare(dir, top, j); err != nil {
		return 0, err
	}
	if err := run(root, strings.TrimPrefix(dir, root)); err != nil {
		return 0, err
	}
	exit, err := os.ReadFile(filepath.Join(dir, "exit"))
	if err != nil {
		return 0, errors.New("the kernel inside stopped before the tests ended")
	}
	_, err = fmt.Sscan(string(exit), &code)
	return code, err
}

// prepare puts the binaries and the job into dir.
func prepare(dir, top string, j job) error {
	if err := copyFile("/proc/self/exe", filepath.Join(dir, "init")); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "minne"), "./cmd/minne")
	build.Dir = top
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build minne: %w", err)
	}
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "job.json"), text, 0o644)
}

// run boots the kernel in a chroot of root and copies the tests' output through.
func run(root, dir string) error {
	// Unpinned, a User-Mode Linux kernel bounces between CPUs and runs ten times slower.
	runtime.LockOSThread()
	var one unix.CPUSet
	one.Set(runtime.NumCPU() - 1)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("pin to one CPU: %w", err)
	}

	kernel := exec.Command("/usr/bin/linux.uml", "mem=512M", "rootfstype=hostfs", "rootflags=/", "rw",
		"uml_dir=/tmp/", "loglevel=1", "con=null", "con0=fd:0,fd:1", "init="+filepath.Join(dir, "init"))
	kernel.Dir = "/"
	kernel.Env = []string{"HOME=/tmp", "TMPDIR=/tmp"}
	// A process group of its own: the kernel is many processes, all ended with it.
	kernel.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := kernel.StdoutPipe()
	if err != nil {
		return err
	}
	if err := kernel.Start(); err != nil {
		return fmt.Errorf("start User-Mode Linux: %w (needs root)", err)
	}
	timer := time.AfterFunc(deadline, func() {
		fmt.Fprintf(os.Stderr, "testuml: no end after %v, stopped\n", deadline)
		_ = syscall.Kill(-kernel.Process.Pid, syscall.SIGKILL)
	})
	defer timer.Stop()
	copyOutput(out)
	// Its exit code says how the kernel ended, not how the tests did.
	_ = kernel.Wait()
	_ = syscall.Kill(-kernel.Process.Pid, syscall.SIGKILL)
	return nil
}

// copyOutput prints what follows the begin line; the boot messages only when it never comes.
func copyOutput(r io.Reader) {
	var before []string
	started := false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		switch {
		case line == begin:
			started = true
		case started:
			fmt.Println(line)
		default:
			before = append(before, line)
		}
	}
	if !started {
		fmt.Fprintln(os.Stderr, strings.Join(before, "\n"))
	}
}

// inside is the first process of the booted kernel. It begins twice: packages that look at the
// system when they are initialised find one the second time.
func inside(m *testing.M) int {
	code := 1
	err := error(nil)
	if os.Getenv(ready) == "" {
		err = setUp()
		if err == nil {
			err = unix.Exec(os.Args[0], os.Args, append(os.Environ(), ready+"=1"))
		}
	}
	if err != nil {
		fmt.Println(begin)
		fmt.Printf("testuml: inside: %v\n", err)
	} else {
		fmt.Println(begin)
		code = m.Run()
	}
	if err := os.WriteFile(filepath.Join(runDir(), "exit"), fmt.Append(nil, code), 0o644); err != nil {
		fmt.Printf("testuml: %v\n", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	return code
}

// setUp mounts the file systems of a running system, loads modules and takes over the flags of go test.
func setUp() error {
	mounts := []struct{ source, target, kind string }{
		{"proc", "/proc", "proc"}, {"sysfs", "/sys", "sysfs"}, {"bpf", "/sys/fs/bpf", "bpf"},
		{"tmpfs", "/tmp", "tmpfs"}, {"tmpfs", "/run", "tmpfs"}, {"tmpfs", "/etc", "tmpfs"}, {"tmpfs", "/var", "tmpfs"},
	}
	for _, f := range mounts {
		if err := unix.Mount(f.source, f.target, f.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", f.target, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(runDir(), "job.json"))
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	os.Args = append([]string{exe}, j.Args...)
	if err := os.Setenv("PATH", "/usr/sbin:/usr/bin"); err != nil {
		return err
	}
	return loadModules(j.Modules)
}

// loadModules loads modules and, before each, those that modules.dep says it needs.
func loadModules(names []string) error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	dir := filepath.Join("/usr/lib/uml/modules", unix.ByteSliceToString(u.Release[:]))
	index, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if err != nil {
		return err
	}
	for _, name := range names {
		files, err := moduleFiles(string(index), name)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := loadModule(filepath.Join(dir, file)); err != nil {
				return err
			}
		}
	}
	return nil
}

// moduleFiles returns a module's file after all that it needs. A line of
// modules.dep reads "module: needed…", what is needed last standing first.
func moduleFiles(index, name string) ([]string, error) {
	for line := range strings.Lines(index) {
		file, needed, _ := strings.Cut(line, ":")
		if filepath.Base(file) == name+".ko" {
			files := append([]string{file}, strings.Fields(needed)...)
			slices.Reverse(files)
			return files, nil
		}
	}
	return nil, fmt.Errorf("kernel module %s is not in modules.dep", name)
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load kernel module %s: %w", path, err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer out.Close()
	_, err = io.Copy(out, in)
	return err
}

// moduleRoot is the directory of go.mod above the package under test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.mod")); err == nil {
			return d, nil
		}
	}
	return "", fmt.Errorf("no go.mod above %s", dir)
}
