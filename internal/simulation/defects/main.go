// Command defects checks that the simulation can fail. It builds the defects of package
// internal/defects into the library, one at a time, and runs the simulation until it catches each. A few that need
// rarer histories have a test of their own.
//
//	go run ./internal/simulation/defects                  all of them
//	go run ./internal/simulation/defects fence-at-least   some
//	go run ./internal/simulation/defects -profile grants -seeds 60 token-twice
//
// It fails if a defect is not caught within its number of runs.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/defects"
)

// A target says in how many runs of which profile a defect must be caught.
type target struct {
	defect  string
	profile string
	seeds   int
	test    string // instead of the simulation, a test
	in      string // the package of the test; "": internal/contract
}

func (t target) String() string {
	if t.test != "" {
		return "by its test"
	}
	return fmt.Sprintf("of at most %d of profile %s", t.seeds, t.profile)
}

// targets are the profiles that catch each defect soonest, and about ten times as many runs as that
// has taken.
var targets = []target{
	{defect: "release-without-compare", profile: "renewals", seeds: 100},
	{defect: "heal-counted", profile: "erased", seeds: 20},
	{defect: "no-rollback", profile: "calm", seeds: 20},
	{defect: "guard-off", profile: "memory", seeds: 100},
	{defect: "fence-at-least", profile: "fences", seeds: 20},
	{defect: "minority", profile: "calm", seeds: 20},
	{defect: "validity-from-answer", profile: "retries", seeds: 200},
	{defect: "validity-from-retry", profile: "retries", seeds: 20},
	{defect: "late-vote", profile: "calm", seeds: 50},
	{defect: "short-quarantine", profile: "memory", seeds: 200},
	{defect: "probe-ignored", profile: "memory", seeds: 200},
	{defect: "clock-not-asked", profile: "processes", seeds: 200},
	{defect: "heal-after-release", profile: "heals", seeds: 300},
	{defect: "heal-never", profile: "heals", seeds: 50},
	{defect: "release-forgotten", profile: "network", seeds: 300},
	{defect: "given-up-not-passed", profile: "impatient", seeds: 200},
	{defect: "tells-nobody", profile: "impatient", seeds: 20},
	{defect: "grant-from-receipt", test: "TestAGrantThatIsReceivedLateIsOver"},
	{defect: "dead-before-the-deaf", test: "TestAClientWithoutASubscriptionThatHasEndedDoesNotStopTheOthers"},
	{defect: "grant-without-run", test: "TestAGrantWithoutARunIDDoesNotCountWhateverTheRecordSays", in: "./internal/master"},
	{defect: "grant-unsure", test: "TestAGrantOfAnUnknownMemoryDoesNotCount"},
	{defect: "given-up-counts", test: "TestAGrantForAClaimThatWasGivenUpDoesNotCount"},
	{defect: "token-twice", test: "TestAGrantForAClaimThatWasGivenUpDoesNotCount"},
	{defect: "grant-overwrites", profile: "grants", seeds: 50},
	{defect: "latest-vote", profile: "grants", seeds: 500},
	{defect: "keeps-to-itself", profile: "impatient", seeds: 100},
	{defect: "minority-kept", test: "TestClientsThatReachOneMasterEachDoNotDelayOthers"},
	{defect: "done-open", profile: "erased", seeds: 50},
	{defect: "fence-forgotten", profile: "erased", seeds: 100},
	{defect: "lockstep", test: "TestContendersNearDifferentMastersSoonAcquireAFreeLock"},
	{defect: "own-maxttl", profile: "agreement", seeds: 20},
	{defect: "read-beside-writer", profile: "readers", seeds: 20},
	{defect: "write-beside-reader", profile: "readers", seeds: 50},
	{defect: "marker-of-the-last", profile: "readers", seeds: 200},
	{defect: "part-of-a-set", profile: "names", seeds: 20},
	{defect: "aim-overwrites", profile: "permits", seeds: 20},
	{defect: "slots-added-up", profile: "permits", seeds: 20},
	{defect: "aim-forgets-nothing", profile: "permits", seeds: 300},
	{defect: "ping-unanswered", test: "TestAGrantCountsFromTheLastPingThatWasAnswered", in: "./internal/master"},
	{defect: "record-time-unchecked", test: "TestAGrantCountsOnlyIfTheMemoryIsUnchanged", in: "./internal/master"},
	{defect: "run-unchecked", test: "TestAGrantCountsOnlyIfTheMemoryIsUnchanged", in: "./internal/master"},
	{defect: "mark-in-quarantine", test: "TestAGrantCountsOnlyAfterTheQuarantine", in: "./internal/master"},
	{defect: "poll-extends", test: "TestPollsDoNotExtendAKeyThatWasGranted", in: "./internal/wire"},
	{defect: "grants-to-the-dead", test: "TestAHandoverToAClientThatHasEndedGoesOnToTheNext", in: "./internal/wire"},
	{defect: "no-yielding", test: "TestOfClaimsWithSplitVotesOneStays", in: "./internal/waits"},
	{defect: "late-poll-ignored", test: "TestALeaseIsLostIfLatePollsFindItsKeysGone"},
	{defect: "commit-extends-nothing", test: "TestACommitExtendsTheKeyIfItIsExact", in: "./internal/wire"},
	{defect: "old-number-committed", test: "TestANumberIsCommittedWhenAQuorumHasExactlyIt", in: "./internal/fence"},
	{defect: "fence-of-slots-forgotten", profile: "permits", seeds: 20},
	{defect: "slots-shortened", test: "TestSlotsAreGivenPassedOnAndExchanged", in: "./internal/wire"},
	{defect: "reader-expired", test: "TestAReaderExpiresByItself", in: "./internal/wire"},
	{defect: "reader-renewed-anew", test: "TestAReaderIsRenewedOnlyWhereItStands", in: "./internal/wire"},
	{defect: "readers-of-before", test: "TestAReaderIsRenewedOnlyWhereItStands", in: "./internal/wire"},
	{defect: "entered-by-an-old-clock", test: "TestAReaderIsInsideBeforeTheClocksAreRead"},
	{defect: "recall-message-ignored", test: "TestAWriterTakesAKeptReadLease"},
	{defect: "recall-vote-ignored", test: "TestAReaderThatTakesAFreeKeyWhileAWriterWaitsKeepsFurtherOnesOut"},
	{defect: "recall-renewal-ignored", test: "TestReadersLearnOfAWriterFromTheirRenewal"},
	{defect: "intent-ignored", test: "TestAWaitingWriterKeepsLaterReadersOut", in: "./internal/wire"},
	{defect: "readers-behind-writers", test: "TestAfterAWriterAllReadersThatWaitAreGrantedTheLock", in: "./internal/wire"},
	{defect: "reader-fence-old", test: "TestAReadersFenceIsTheLastAndIsWrittenBack", in: "./internal/wire"},
	{defect: "reader-not-prolonged", test: "TestACommitOfAReaderProlongsItsTime", in: "./internal/wire"},
	{defect: "reader-number-at-least", test: "TestAReadersFenceIsTheLastAndIsWrittenBack", in: "./internal/wire"},
	{defect: "granted-to-one-reader", test: "TestAfterAWriterAllReadersThatWaitAreGrantedTheLock", in: "./internal/wire"},
	{defect: "reader-stays-behind", test: "TestAReaderWithVotesElsewhereStandsBesideReaders", in: "./internal/wire"},
	{defect: "reader-lost-untold", test: "TestAReaderWithVotesElsewhereStandsBesideReaders", in: "./internal/wire"},
	{defect: "readers-not-recalled", test: "TestAWriterAsksTheReadersToLeaveIfItIsTheFirst", in: "./internal/wire"},
	{defect: "renewed-where-any", test: "TestCommandsForSeveralNamesAreOneVote", in: "./internal/master"},
	{defect: "parts-not-undone", test: "TestTokensOfTheNamesDoNotStayWhereTheMergerWasRefused"},
	{defect: "merger-kept", test: "TestAMergerThatFailsLeavesNothing"},
	{defect: "parts-live-on", test: "TestNothingIsSentForTheNamesOfASetOnceTheyAreOneLease"},
	{defect: "kept-clocks-unread", test: "TestAKeptLockIsNotEnteredAfterASuspend"},
	{defect: "kept-recall-dropped", test: "TestARecallOfALockThatIsHeldEndsWithItsUnlock"},
	{defect: "kept-beside-others", test: "TestAKeptLockIsReleasedForOtherLockersOfItsClient"},
	{defect: "kept-loss-untold", test: "TestALossIsToldToTheKeeper"},
	{defect: "kept-begun-late", test: "TestALeaseThatIsLostBeforeItIsSharedIsNotEntered"},
	{defect: "value-of-before", profile: "flights", seeds: 20},
	{defect: "value-for-late-joiners", test: "TestAGoroutineThatJoinsLateIsNotServedByAnotherProcess"},
	{defect: "kept-entered-late", test: "TestNoGoroutineEntersAKeptLockWhileItIsReleased"},
}

func main() {
	first := flag.Uint64("first", 0, "the first seed")
	profile := flag.String("profile", "", "run the simulation with this profile, also for defects that have a test of their own")
	seeds := flag.Int("seeds", 20, "with -profile, how many seeds at most")
	flag.Parse()
	if *profile != "" {
		for i, t := range targets {
			targets[i] = target{defect: t.defect, profile: *profile, seeds: *seeds}
		}
	}
	if err := run(*first, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "defects:", err)
		os.Exit(1)
	}
}

// run runs the named defects, or all.
func run(first uint64, names []string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.defect == name }) {
			return fmt.Errorf("no defect %q", name)
		}
	}
	var missed []string
	for _, t := range targets {
		if len(names) > 0 && !slices.Contains(names, t.defect) {
			continue
		}
		began := time.Now()
		found, err := t.caught(root, first)
		if err != nil {
			return fmt.Errorf("%s: %w", t.defect, err)
		}
		if found == "" {
			missed = append(missed, t.defect)
			found = "NOT CAUGHT"
		}
		fmt.Printf("%-24s %s, %v (%v)\n", t.defect, found, t, time.Since(began).Round(time.Second))
	}
	if len(missed) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(missed, ", "))
	}
	return nil
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// caught runs the simulation with the defect, and returns what caught it and in which seed; "" if
// nothing did.
func (t target) caught(root string, first uint64) (string, error) {
	d, err := defects.Find(t.defect)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "defects")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := d.Overlay(root, dir)
	if err != nil {
		return "", err
	}
	args := []string{"^TestSeeds$", "./internal/simulation", "-args", "-noshrink", "-untilfail", "-profile=" + t.profile,
		fmt.Sprint("-first=", first), fmt.Sprint("-seeds=", t.seeds)}
	timeout := "0"
	if t.test != "" {
		timeout = "1m"
		args = []string{"^" + t.test + "$", cmp.Or(t.in, "./internal/contract")}
	}
	cmd := exec.Command("go", append([]string{"test", "-overlay", overlay, "-count=1", "-timeout=" + timeout, "-run"}, args...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", nil
	}
	return explain(string(out))
}

// violated is how a failed run begins; crashed is how one ends that takes its process along; tested is how another
// test fails.
var (
	violated = regexp.MustCompile(`(?s)simulation_test\.go:\d+: \S+: ([a-z ]+): .*?seed (\d+), `)
	tested   = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	crashed  = regexp.MustCompile(`the last was (\d+)\n(?s:.*?)((?:panic|fatal error|stalled): [^\n]*)`)
)

// explain finds in the output of a failed run what has caught the defect.
func explain(out string) (string, error) {
	if m := violated.FindStringSubmatch(out); m != nil {
		return fmt.Sprintf("%s: seed %s", m[1], m[2]), nil
	}
	if m := crashed.FindStringSubmatch(out); m != nil {
		return fmt.Sprintf("%s: seed %s", m[2], m[1]), nil
	}
	if m := tested.FindStringSubmatch(out); m != nil && m[1] != "TestSeeds" {
		return m[1], nil
	}
	return "", fmt.Errorf("the simulation did not run:\n%s", out)
}
