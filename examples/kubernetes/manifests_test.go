package kubernetes

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"debug/elf"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/redlock-go/redlock/internal/programs"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// manifests are the objects of both files, by kind and name.
func manifests(t *testing.T) map[string]any {
	t.Helper()
	kinds := map[string]func() any{
		"v1 ConfigMap":                  func() any { return new(corev1.ConfigMap) },
		"v1 Secret":                     func() any { return new(corev1.Secret) },
		"v1 Service":                    func() any { return new(corev1.Service) },
		"policy/v1 PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
		"apps/v1 StatefulSet":           func() any { return new(appsv1.StatefulSet) },
		"batch/v1 CronJob":              func() any { return new(batchv1.CronJob) },
	}
	all := make(map[string]any)
	for _, file := range []string{"masters.yaml", "job.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(text, []byte("\n---\n")) {
			var head struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
			if err := yaml.Unmarshal(doc, &head); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kind := kinds[head.APIVersion+" "+head.Kind]
			if kind == nil {
				t.Fatalf("%s: %s %s is not known to this test", file, head.APIVersion, head.Kind)
			}
			object := kind()
			if err := yaml.UnmarshalStrict(doc, object); err != nil { // a field that the type does not have is an error
				t.Fatalf("%s: %s %s: %v", file, head.Kind, head.Metadata.Name, err)
			}
			all[head.Kind+"/"+head.Metadata.Name] = object
		}
	}
	return all
}

func TestTheManifestsFitTheTypesAndEachOther(t *testing.T) {
	all := manifests(t)
	set := all["StatefulSet/redlock"].(*appsv1.StatefulSet)
	labels := set.Spec.Template.Labels
	for name, selector := range map[string]map[string]string{
		"the StatefulSet":            set.Spec.Selector.MatchLabels,
		"the Service":                all["Service/redlock"].(*corev1.Service).Spec.Selector,
		"the PodDisruptionBudget":    all["PodDisruptionBudget/redlock"].(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels,
		"the topology of the pods":   set.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
		"the StatefulSet's template": labels,
	} {
		if len(selector) != 1 || selector["app"] != labels["app"] {
			t.Errorf("%s selects %v, the pods are %v", name, selector, labels)
		}
	}
	if got := all["Service/redlock"].(*corev1.Service).Name; set.Spec.ServiceName != got {
		t.Errorf("the StatefulSet's service is %q, want %q", set.Spec.ServiceName, got)
	}
	if *set.Spec.Replicas != 3 || all["PodDisruptionBudget/redlock"].(*policyv1.PodDisruptionBudget).Spec.MaxUnavailable.IntValue() != 1 {
		t.Error("more than one of three masters may be away at a time")
	}
	job := all["CronJob/nightly-report"].(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec
	for _, pod := range []corev1.PodSpec{set.Spec.Template.Spec, job} {
		volumes := make(map[string]bool)
		for _, v := range pod.Volumes {
			volumes[v.Name] = true
			switch {
			case v.ConfigMap != nil && all["ConfigMap/"+v.ConfigMap.Name] == nil:
				t.Errorf("there is no ConfigMap %s", v.ConfigMap.Name)
			case v.Secret != nil && v.Secret.SecretName != "redlock-tls" && all["Secret/"+v.Secret.SecretName] == nil: // that one is made by others
				t.Errorf("there is no Secret %s", v.Secret.SecretName)
			}
		}
		for _, m := range pod.Containers[0].VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which is no volume", pod.Containers[0].Name, m.Name)
			}
		}
	}
	urls := strings.Split(all["Secret/redlock-masters"].(*corev1.Secret).StringData["REDLOCK_MASTERS"], ",")
	for i, u := range urls {
		if want := fmt.Sprintf("@%s-%d.%s:6379", set.Name, i, set.Spec.ServiceName); !strings.HasSuffix(u, want) {
			t.Errorf("master %d of the job is %s, want …%s", i, u, want)
		}
	}
	if len(urls) != int(*set.Spec.Replicas) {
		t.Errorf("the job has %d masters of %d", len(urls), *set.Spec.Replicas)
	}
}

// quarantine is the default one. A probe that is ready earlier lets the next master be restarted within it.
const quarantine = 12 * time.Second

// TestTheJobRunsOnMastersOfTheManifests starts redis-server with the configuration and the users of the manifests, runs
// the probe, and then the command of the job.
func TestTheJobRunsOnMastersOfTheManifests(t *testing.T) {
	programs.Need(t, "redis-server", "redis-cli")
	all := manifests(t)
	dir := t.TempDir()
	certificate(t, dir)
	local := strings.NewReplacer("/tls/", dir+"/", "/acl/", dir+"/")
	write(t, dir, "users.acl", all["Secret/redlock-acl"].(*corev1.Secret).StringData["users.acl"])
	bin := buildCommand(t)
	var args, masters, ports []string
	for line := range strings.Lines(all["ConfigMap/redlock"].(*corev1.ConfigMap).Data["redis.conf"]) {
		words := strings.Fields(strings.ReplaceAll(local.Replace(line), `""`, ""))
		switch words[0] {
		case "port", "tls-port": // the test has a port without TLS to manage the server, and a free one with it
		default:
			args = append(append(args, "--"+words[0]), strings.Join(words[1:], " "))
		}
	}
	if !strings.Contains(strings.Join(args, " "), "--maxmemory-policy noeviction") {
		t.Error("the masters may evict locks")
	}
	for range 3 {
		port := start(t, args...)
		ports = append(ports, port)
		masters = append(masters, "rediss://redlock:PASSWORD@localhost:"+port)
	}
	job := all["CronJob/nightly-report"].(*batchv1.CronJob).Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command
	command := strings.Split(strings.NewReplacer("--at-least 30s", "--at-least 1100ms", "/report.sh", "echo done",
		"--wait 1s", "--wait 1s --node-timeout 2s").Replace(local.Replace(strings.Join(job, " "))), " ")
	runs := func() (string, error) {
		cmd := programs.Command(t, bin, command[1:]...)
		cmd.Env = append(os.Environ(), "REDLOCK_MASTERS="+strings.Join(masters, ","))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	began := time.Now()
	if out, err := runs(); err == nil {
		t.Errorf("new masters vote at once: %s", out) // the first client begins their quarantine
	}

	probe := all["StatefulSet/redlock"].(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command
	for {
		cmd := programs.Command(t, probe[0], probe[1], strings.ReplaceAll(local.Replace(probe[2]), "redis-cli", "redis-cli -h localhost -p "+ports[2]))
		out, err := cmd.CombinedOutput()
		if err == nil {
			break
		} else if len(out) > 0 || time.Since(began) > time.Minute {
			t.Fatalf("the probe fails: %v, %s", err, out)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if took := time.Since(began); took < quarantine {
		t.Errorf("a master is ready after %v, within its quarantine of %v", took, quarantine)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		out, err := runs()
		if err == nil && strings.Contains(out, "done") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
		}
	}
}

func TestTheUserOfTheManifestsHasTheLeastRights(t *testing.T) {
	operations, err := os.ReadFile("../../docs/operations.md") // a test compares that page with the command
	if err != nil {
		t.Fatal(err)
	}
	rule := regexp.MustCompile(`(?m)^ACL SETUSER redlock reset on >PASSWORD (.*)$`).FindSubmatch(operations)
	users := manifests(t)["Secret/redlock-acl"].(*corev1.Secret).StringData["users.acl"]
	if rule == nil || !strings.Contains(users+"\n", "user redlock on >PASSWORD "+string(rule[1])+"\n") {
		t.Errorf("the user redlock of the manifests is not that of docs/operations.md:\n%s\n%s", users, rule)
	}
}

// start starts a redis-server for the test, and returns its port for TLS.
func start(t *testing.T, args ...string) string {
	t.Helper()
	// The users of the manifests cannot answer the test's own commands, so it adds a default user that can.
	path := args[len(args)-1]
	for i, a := range args {
		if a == "--aclfile" {
			path = args[i+1]
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(path), "users.acl", strings.Replace(string(text), "user default off", "user default on nopass ~* &* +@all", 1))
	_, port := redisserver.TLSTB(t, args...)
	return port
}

// buildCommand builds the command as the Dockerfile does, and checks that it is static.
func buildCommand(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0) go (build .*) -o /redlock (.*)$`).FindStringSubmatch(string(text))
	if line == nil {
		t.Fatal("the Dockerfile builds no static command")
	}
	bin := filepath.Join(t.TempDir(), "redlock")
	cmd := programs.Command(t, "go", append(strings.Fields(line[2]), "-o", bin, line[3])...)
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), line[1])
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	if runtime.GOOS == "linux" {
		f, err := elf.Open(bin)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Error("the command needs a dynamic linker, which an image FROM scratch does not have")
			}
		}
	}
	return bin
}

// certificate writes a certificate for localhost, which is its own authority.
func certificate(t *testing.T, dir string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, dir, "tls.crt", cert)
	write(t, dir, "ca.crt", cert)
	write(t, dir, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
