package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/redlock-go/redlock/internal/supervise"
)

// Somebody kills all processes of redlock. Then nobody reaches the children of the command, but the kernel still kills the command.
func TestTheCommandIsKilledWhenRedlockIsKilledWithItsSupervisor(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	r := startRun(t, masters, nil, "stubborn")
	r.expect("ready")
	supervisors, err := childrenOf(r.cmd.Process.Pid, supervise.Name)
	if err != nil || len(supervisors) != 1 {
		t.Fatalf("the supervisors are %v, %v, want one", supervisors, err)
	}
	syscall.Kill(supervisors[0], syscall.SIGKILL)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, rest := r.end(); rest != "" { // the output ends when every process that could write has ended
		t.Errorf("the command said %q, want it killed without a word", rest)
	}
}

// A service manager, or pkill, sends signals to all processes.
func TestASupervisorIgnoresSignalsThatAskItToEnd(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	r := startRun(t, masters, nil, "family")
	r.expect("ready")
	supervisors, err := childrenOf(r.cmd.Process.Pid, supervise.Name)
	if err != nil || len(supervisors) != 1 {
		t.Fatalf("the supervisors are %v, %v, want one", supervisors, err)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGTSTP} {
		syscall.Kill(supervisors[0], s)
	}
	r.cmd.Process.Kill()
	if _, rest := r.end(); rest != "" {
		t.Errorf("a process of the command said %q, want it killed without a word", rest)
	}
}

// childrenOf returns the children of a process whose last argument is last.
func childrenOf(parent int, last string) (pids []int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/status")
	for _, name := range stats {
		status, _ := os.ReadFile(name) // it may have ended
		if !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", parent)) {
			continue
		}
		dir := filepath.Dir(name)
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, notPid := strconv.Atoi(filepath.Base(dir)); notPid == nil && strings.HasSuffix(string(args), "\x00"+last+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// The first process of a container gets the processes that others have left behind as children. The end of a run does not wait for
// those that have ended: the lease lasts for an hour, and so might that.
func TestARunThatIsTheFirstProcessDoesNotWaitForProcessesThatHaveEnded(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	r := newRun(t, masters, []string{"--ttl", "1h", "--raise-max-ttl", "--max", "100ms"}, "orphan")
	r.cmd.Args = slices.Concat(r.cmd.Args[:1], []string{runChildName, "first"}, r.cmd.Args[1:])
	r.start()
	r.wantEnd(exitLate, "the command ran for longer than --max")
}

// Such processes end at any time while the command runs. Nobody else waits for them.
func TestARunThatIsTheFirstProcessWaitsForProcessesThatWereLeftBehind(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	r := newRun(t, masters, nil, "parent")
	r.cmd.Args = slices.Concat(r.cmd.Args[:1], []string{runChildName, "first"}, r.cmd.Args[1:])
	r.start()
	r.wantEnd(0)
}

// runParent is a child that starts another one, which leaves a third behind, and ends when there is no third any more.
func runParent(args []string) int {
	if len(args) > 0 {
		left := exec.Command(os.Args[0], runChildName, "exit", "0")
		if left.Start() != nil {
			return 98
		}
		fmt.Println(left.Process.Pid)
		return 0
	}
	out, err := exec.Command(os.Args[0], runChildName, "parent", "leaves").Output()
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || pid == 0 {
		return 98
	}
	for range 1000 {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return 0
		}
		time.Sleep(5 * time.Millisecond)
	}
	return 97
}

// runFirst executes redlock in the place of this process, as one that gets those that others have left behind.
func runFirst(args []string) int {
	const subreaper = 36 // PR_SET_CHILD_SUBREAPER
	if _, _, err := syscall.Syscall(syscall.SYS_PRCTL, subreaper, 1, 0); err != 0 {
		return 98
	}
	syscall.Exec(os.Args[0], append(os.Args[:1:1], args...), os.Environ())
	return 98
}

// runOrphan is a child that ends at once when it is asked to, and leaves behind another one that ends a little later. It may be asked before the
// other one is ready. Then the signal ends it: if it went on, it would start one that nobody asks.
func runOrphan(args []string) int {
	signals := make(chan os.Signal, 1)
	if len(args) > 0 {
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		time.Sleep(100 * time.Millisecond)
		return 0
	}
	child := exec.Command(os.Args[0], runChildName, "orphan", "left")
	out, err := child.StdoutPipe()
	if err != nil || child.Start() != nil {
		return 98
	}
	out.Read(make([]byte, 1)) // it is ready
	signal.Notify(signals, syscall.SIGTERM)
	<-signals
	return 0
}

func init() {
	verbs["shell"], verbs["first"], verbs["orphan"], verbs["parent"] = runShell, runFirst, runOrphan, runParent
	const subreaper = 37 // PR_GET_CHILD_SUBREAPER
	var is int32
	if _, _, err := syscall.Syscall(syscall.SYS_PRCTL, subreaper, uintptr(unsafe.Pointer(&is)), 0); err == 0 && is == 1 {
		adopts = true
	}
}

// runShell runs a job in the foreground, as a shell does. When the job is stopped, it prints that,
// reads a line, and continues the job.
func runShell(args []string) int {
	tty := openTerminal()
	defer tty.close(0)
	job := exec.Command(os.Args[0], args[1:]...)
	job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
	job.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: int(tty.file.Fd())}
	if err := job.Start(); err != nil {
		return 98
	}
	in := bufio.NewReader(os.Stdin)
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(job.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil {
			continue
		}
		tty.setForeground(tty.own)
		if !ws.Stopped() {
			fmt.Println("status", ws.ExitStatus())
			time.Sleep(childPatience) // until it is killed: with the first process of a session, what the terminal has not shown is lost
			return 0
		}
		fmt.Println("stopped")
		in.ReadString('\n')
		tty.setForeground(job.Process.Pid)
		syscall.Kill(-job.Process.Pid, syscall.SIGCONT)
	}
}

// A console is the other end of a terminal.
type console struct {
	t    *testing.T
	file *os.File
	seen string
}

// startShell starts a shell at a terminal, and in it `redlock run` of a child.
func startShell(t *testing.T, masters, flags string, child ...string) *console {
	t.Helper()
	file, end := newTerminal(t)
	defer end.Close()
	args := append([]string{runChildName, "shell", os.Args[0], runCommandName}, strings.Fields(flags)...)
	args = append(args, "n", "--", os.Args[0], runChildName)
	shell := exec.Command(os.Args[0], append(args, child...)...)
	shell.Env = runEnv(masters)
	shell.Stdin, shell.Stdout, shell.Stderr = end, end, end
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(childPatience, func() { shell.Process.Kill() })
	t.Cleanup(func() { hung.Stop(); shell.Process.Kill(); shell.Wait() })
	return &console{t: t, file: file}
}

// newTerminal returns both ends of a terminal: what is seen and pressed there, and what a process has.
func newTerminal(t *testing.T) (file, end *os.File) {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	var number, unlocked int32
	if e := ioctl(file, syscall.TIOCGPTN, &number); e != 0 {
		t.Fatal(e)
	}
	if e := ioctl(file, syscall.TIOCSPTLCK, &unlocked); e != 0 {
		t.Fatal(e)
	}
	end, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file, end
}

// expect reads until the screen shows text.
func (s *console) expect(text string) {
	s.t.Helper()
	buf := make([]byte, 1024)
	for !strings.Contains(s.seen, text) {
		n, err := s.file.Read(buf)
		if err != nil {
			s.t.Fatalf("the screen ends (%v) without %q:\n%s", err, text, s.seen)
		}
		s.seen += string(buf[:n])
	}
}

func (s *console) press(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.file, keys); err != nil {
		s.t.Fatal(err)
	}
}

func TestRunGivesTheTerminalToItsCommand(t *testing.T) {
	t.Parallel()
	_, masters := embedMasters(t, 3)
	t.Run("reads it", func(t *testing.T) {
		s := startShell(t, masters, "", "echo")
		s.expect("under n\r\n")
		s.press("hello\n\x04")
		s.expect("hello\r\nhello\r\n") // the terminal's echo and the command's
		s.expect("status 0\r\n")
	})
	t.Run("is interrupted", func(t *testing.T) {
		s := startShell(t, masters, "", "hold")
		s.expect("ready\r\n")
		s.press("\x03")
		s.expect("got interrupt\r\n")
		s.expect("status 40\r\n")
	})
	t.Run("is stopped and goes on", func(t *testing.T) {
		s := startShell(t, masters, "--ttl 1h --raise-max-ttl", "echo")
		s.expect("under n\r\n")
		s.press("\x1a")
		s.expect("stopped\r\n")
		s.press("fg\n")
		s.press("hello\n\x04")
		s.expect("hello\r\nhello\r\n")
		s.expect("status 0\r\n")
	})
	t.Run("is stopped beyond the lease", func(t *testing.T) {
		s := startShell(t, masters, "--ttl 3s", "hold")
		s.expect("ready\r\n")
		s.press("\x1a")
		s.expect("stopped\r\n")
		startRun(t, masters, []string{"--wait", "20s"}, "exit", "0").wantEnd(0)
		s.press("fg\n")
		s.expect(fmt.Sprintf("status %d\r\n", exitLost))
		if strings.Contains(s.seen, "got") {
			t.Errorf("the command went on without the lease:\n%s", s.seen)
		}
	})
}
