#!/bin/sh
# usage: node.sh [COMMAND ...]
#
# Runs a command with kubectl, helm and the cluster of KUBECONFIG. Without a command it only builds what is missing for
# that, which needs the Go module proxy: inside engine.sh's network there is none.
#
# Where KUBECONFIG is not set, root on Linux gets a node, control plane and all, for as long as the command runs. It is
# in a network namespace with nothing outside of it, so that no address, rule or port touches this machine's. It has no
# registry: the command imports images with $NODE_LOAD, which reads what `docker save` writes. Kubernetes and Helm are
# built from Go modules into .tools, which takes 10 to 20 minutes of a processor once; the rest is Debian's: ensure.sh
# installs it. Network policies are not enforced: its network plugin cannot.
set -eu

tools=$(cd "$(dirname "$0")/../.." && pwd)/.tools
KUBERNETES_VERSION=v1.34.3 HELM_VERSION=v4.3.1

suits() { # suits VERSION: can this Helm read the chart?
	[ -n "$1" ] && [ "$(printf '3.8\n%s\n' "${1#v}" | sort -V | head -n 1)" = 3.8 ]
}
mkdir -p "$tools/helm"
if ! suits "$(helm version --template '{{.Version}}' 2>/dev/null)"; then
	if [ ! -x "$tools/helm-$HELM_VERSION" ]; then
		echo "building helm $HELM_VERSION" >&2
		GOBIN=$tools/helm go install -trimpath -ldflags '-s -w' "helm.sh/helm/v4/cmd/helm@$HELM_VERSION"
		mv "$tools/helm/helm" "$tools/helm-$HELM_VERSION"
	fi
	ln -sf "../helm-$HELM_VERSION" "$tools/helm/helm"
	export PATH="$tools/helm:$PATH"
fi

if [ -n "${KUBECONFIG:-}" ]; then
	[ $# = 0 ] || exec "$@"
	exit
fi
if [ "$(id -u)" != 0 ] || [ "$(uname)" != Linux ]; then
	echo "name a cluster in KUBECONFIG, or run this as root on Linux" >&2
	exit 1
fi
if [ -n "$(find /sys/fs/cgroup -maxdepth 2 -name 'kubepods*')" ]; then
	echo "this machine is a node already: name its cluster in KUBECONFIG" >&2
	exit 1
fi

# One program for all parts, which have most of their packages in common. Its module takes the versions of
# Kubernetes' own parts from the release, because those that Kubernetes names are folders of its repository.
kubernetes=$tools/kubernetes-$KUBERNETES_VERSION
if [ ! -x "$kubernetes" ]; then
	echo "building Kubernetes $KUBERNETES_VERSION" >&2
	from=$(mktemp -d)
	(
		cd "$from"
		cat >main.go <<-'END'
			package main

			import (
				"context"
				"fmt"
				"os"
				"path/filepath"

				"github.com/spf13/cobra"
				"k8s.io/component-base/cli"
				kubectl "k8s.io/kubectl/pkg/cmd"
				apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
				manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
				proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
				scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
				kubelet "k8s.io/kubernetes/cmd/kubelet/app"
			)

			func main() {
				commands := map[string]func() *cobra.Command{
					"kubectl":                 kubectl.NewDefaultKubectlCommand,
					"kube-apiserver":          apiserver.NewAPIServerCommand,
					"kube-controller-manager": manager.NewControllerManagerCommand,
					"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
					"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
					"kube-proxy":              proxy.NewProxyCommand,
				}
				name := filepath.Base(os.Args[0])
				command := commands[name]
				if command == nil {
					fmt.Fprintln(os.Stderr, name, "is no part of Kubernetes")
					os.Exit(2)
				}
				os.Exit(cli.Run(command()))
			}
		END
		released=$(go list -m -f '{{.GoMod}}' "k8s.io/kubernetes@$KUBERNETES_VERSION")
		{
			echo "module node"
			sed -n '/^go /p; /^godebug default/p' "$released"
			echo "require k8s.io/kubernetes $KUBERNETES_VERSION"
			sed -n "s,^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging/.*,replace \1 => \1 v0${KUBERNETES_VERSION#v1},p" "$released"
		} >go.mod
		minor=${KUBERNETES_VERSION#v1.}
		version=k8s.io/component-base/version
		CGO_ENABLED=0 go build -mod=mod -trimpath -buildvcs=false -o "$kubernetes" \
			-ldflags "-s -w -X $version.gitVersion=$KUBERNETES_VERSION -X $version.gitMajor=1 -X $version.gitMinor=${minor%%.*}" .
	)
	rm -rf "$from"
fi
[ $# != 0 ] || exit 0

dir=$(mktemp -d "${TMPDIR:-/var/tmp}/evalfleet-node.XXXXXX")
space=${dir##*/}
inside="nsenter --net=/run/netns/$space"
address=10.99.0.1 # of the node, in its network namespace
runtime=$dir/containerd.sock
pids=

mkdir "$dir/bin"
for name in kubectl kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy; do
	ln -s "$kubernetes" "$dir/bin/$name"
done
export PATH="$dir/bin:/usr/sbin:$PATH" # Debian keeps dnsmasq in the second

settings="vm.overcommit_memory kernel.panic kernel.panic_on_oops" # kubelet changes them
# shellcheck disable=SC2086 # words
kept=$(sysctl $settings | tr -d ' ')

# shellcheck disable=SC2329 # the trap calls it
stop() {
	for pid in $pids; do
		[ "$pid" = "${containers:-}" ] || kill -KILL -"$pid" 2>/dev/null || true # with what it started; nothing of it is kept
	done
	for pid in $pids; do
		[ "$pid" = "${containers:-}" ] || wait "$pid" 2>/dev/null || true
	done
	if [ -n "${containers:-}" ]; then
		for kind in task container; do
			ctr --address "$runtime" --namespace k8s.io $kind list --quiet 2>/dev/null | while read -r id; do
				ctr --address "$runtime" --namespace k8s.io $kind rm $([ $kind = container ] || echo --force) "$id" >/dev/null 2>&1 || true
			done
		done
		kill "$containers" 2>/dev/null || true
		wait "$containers" 2>/dev/null || true
	fi
	awk -v dir="$dir/" 'index($5, dir) == 1 {print $5}' /proc/self/mountinfo | sort -r | while read -r mount; do
		umount "$mount" 2>/dev/null || true
	done
	find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null || true
	find /var/log/containers -maxdepth 1 -lname "$dir/*" -delete 2>/dev/null || true
	ip netns delete "$space" 2>/dev/null || true
	for setting in $kept; do
		sysctl -q "$setting" || true
	done
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

# begin NAME COMMAND ...: in the background, in the node's network. setsid: Ctrl-C is for the command, which removes
# its pods while the node still runs.
begin() {
	name=$1
	shift
	# shellcheck disable=SC2086
	setsid $inside "$@" >"$dir/$name.log" 2>&1 &
	pids="$! $pids"
}

# until_done WHAT COMMAND ...: waits until a command succeeds, while all that was started runs.
until_done() {
	what=$1
	shift
	until "$@" >/dev/null 2>&1; do
		for pid in $pids; do
			if ! kill -0 "$pid" 2>/dev/null; then
				echo "$what: a part of Kubernetes ended. The last lines of each:" >&2
				tail -n 3 "$dir"/*.log >&2
				exit 1
			fi
		done
		sleep 0.2
	done
}

ip netns add "$space"
$inside ip link set lo up
$inside ip link add node type veth peer name outside
$inside ip address add $address/24 dev node
$inside ip link set outside up
$inside ip link set node up
$inside ip route add default dev node # without one, kubelet finds no address of its own
$inside sysctl -qw net.ipv4.ip_forward=1
$inside sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null || true

token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
echo "$token,admin,admin,system:masters" >"$dir/tokens"
openssl genrsa -out "$dir/accounts.key" 2048 2>/dev/null
begin etcd etcd --data-dir "$dir/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
	--listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380
begin apiserver kube-apiserver --advertise-address $address --cert-dir "$dir/apiserver" --etcd-servers http://127.0.0.1:2379 \
	--service-cluster-ip-range 10.96.0.0/16 --authorization-mode RBAC --token-auth-file "$dir/tokens" \
	--service-account-issuer https://kubernetes.default.svc --service-account-key-file "$dir/accounts.key" \
	--service-account-signing-key-file "$dir/accounts.key" --kubelet-preferred-address-types InternalIP

mkdir "$dir/interfaces"
cat >"$dir/interfaces/10-pods.conflist" <<'END'
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "hairpinMode": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
cat >"$dir/containerd.toml" <<END
version = 2
root = "$dir/containerd"
state = "$dir/containerd-state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "$runtime"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/evalfleet/pause:1"
  restrict_oom_score_adj = true # root of a virtual machine or container may not lower it
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$dir/interfaces"
END
begin containerd containerd --config "$dir/containerd.toml"
containers=$!
export NODE_LOAD="ctr --address $runtime --namespace k8s.io images import -"

# What holds a pod's network: a program that waits.
mkdir -p "$dir/pause/bin"
cp "$(command -v busybox)" "$dir/pause/bin/busybox"
until_done containerd ctr --address "$runtime" version
tar -C "$dir/pause" -c . | docker import --change 'ENTRYPOINT ["/bin/busybox", "tail", "-f", "/dev/null"]' - evalfleet/pause:1 >/dev/null
docker save evalfleet/pause:1 | $NODE_LOAD >/dev/null
docker image rm evalfleet/pause:1 >/dev/null

export KUBECONFIG="$dir/kubeconfig"
until_done kube-apiserver test -s "$dir/apiserver/apiserver.crt"
cat >"$KUBECONFIG" <<END
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://$address:6443", certificate-authority: "$dir/apiserver/apiserver.crt"}}]
users: [{name: admin, user: {token: "$token"}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
END
until_done kube-apiserver $inside kubectl get --raw /readyz
begin manager kube-controller-manager --kubeconfig "$KUBECONFIG" --leader-elect=false \
	--service-account-private-key-file "$dir/accounts.key" --root-ca-file "$dir/apiserver/apiserver.crt"
begin scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false
# Before the pods, which would not reach services.
begin proxy kube-proxy --kubeconfig "$KUBECONFIG" --proxy-mode iptables --cluster-cidr 10.244.0.0/24 --hostname-override node \
	--conntrack-max-per-core 0

# The names of services.
: >"$dir/hosts"
begin dns dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --addn-hosts="$dir/hosts" --user=root \
	--listen-address=$address --bind-interfaces --local=/cluster.local/ --pid-file="$dir/dnsmasq.pid"
dns=$!
cat >"$dir/names.sh" <<END
while sleep 1; do
	kubectl get services --all-namespaces --watch --output name
done | while read -r _; do
	kubectl get services --all-namespaces --output \
		jsonpath='{range .items[?(@.spec.clusterIP!="None")]}{.spec.clusterIP} {.metadata.name}.{.metadata.namespace}.svc.cluster.local{"\n"}{end}' >"$dir/hosts.new"
	mv "$dir/hosts.new" "$dir/hosts"
	kill -HUP $dns
done
END
begin names sh "$dir/names.sh"

echo "nameserver $address" >"$dir/resolv.conf"
cat >"$dir/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix://$runtime
clusterDomain: cluster.local
clusterDNS: [$address]
resolvConf: $dir/resolv.conf
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}} # nobody else is in its network
authorization: {mode: AlwaysAllow}
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
podLogsDir: $dir/logs
volumePluginDir: $dir/plugins
END
begin kubelet kubelet --config "$dir/kubelet.yaml" --kubeconfig "$KUBECONFIG" --root-dir "$dir/kubelet" --cert-dir "$dir/kubelet-certs" \
	--hostname-override node --node-ip $address
until_done kubelet $inside kubectl wait --for condition=Ready node/node --timeout 5s

for n in 1 2 3 4; do
	mkdir -p "$dir/volumes/$n"
	cat <<END
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-$n}
spec:
  capacity: {storage: 30Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {path: $dir/volumes/$n}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
END
done | $inside kubectl apply --filename - >/dev/null
echo "started Kubernetes $KUBERNETES_VERSION, with its files in $dir" >&2
# shellcheck disable=SC2086
$inside "$@"
