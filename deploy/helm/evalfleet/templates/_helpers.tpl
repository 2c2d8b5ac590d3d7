{{/* The beginning of every object's name; a Service's has no dot, which a release's may. */}}
{{- define "evalfleet.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | replace "." "-" | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* By what the pods of a part are chosen: (list $ part). */}}
{{- define "evalfleet.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of an object: (list $ part). */}}
{{- define "evalfleet.labels" -}}
{{- $root := index . 0 -}}
{{ include "evalfleet.podLabels" . }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- end -}}

{{/* Labels of pods: (list $ part). They contain no version, because a change of them
     would restart every pod, also that of Redis. */}}
{{- define "evalfleet.podLabels" -}}
{{- $root := index . 0 -}}
{{ include "evalfleet.selector" . }}
app.kubernetes.io/part-of: evalfleet
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "evalfleet.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag }}
{{- end -}}
{{- end -}}

{{/* The image of every part of a fleet; without a tag that of the chart's release. */}}
{{- define "evalfleet.programImage" -}}
{{- include "evalfleet.image" (merge (dict "tag" (default .Chart.AppVersion .Values.image.tag)) .Values.image) -}}
{{- end -}}

{{- define "evalfleet.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "evalfleet.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* Nine tenths of a memory limit, as GOMEMLIMIT: Go does not read the limit itself. */}}
{{- define "evalfleet.memoryLimit" -}}
{{- $text := toString . -}}
{{- $unit := regexFind "[A-Za-z]*$" $text -}}
{{- $factors := dict "" 1.0 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- if not (hasKey $factors $unit) -}}
{{- fail (printf "resources.limits.memory: %s is not understood; write it like 512Mi" $text) -}}
{{- end -}}
{{- printf "%dMiB" (int64 (divf (mulf (trimSuffix $unit $text | float64) (get $factors $unit) 0.9) 1048576.0)) -}}
{{- end -}}

{{/* The longest of fleet's timeouts may not pass longestCallSeconds, from which
     --grace and the time until the kill are made. */}}
{{- define "evalfleet.checkTimeout" -}}
{{- $most := index . 0 -}}
{{- $of := index . 2 -}}
{{- if kindIs "map" $of -}}
{{- with get $of "timeout_seconds" -}}
{{- if gt (float64 .) (float64 $most) -}}
{{- fail (printf "%s.timeout_seconds is %v, and longestCallSeconds only %v: calls would be cut off at every stop; raise longestCallSeconds" (index $ 1) . $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* fleet.yaml, with what follows from other values. */}}
{{- define "evalfleet.fleet" -}}
{{- $longest := .Values.longestCallSeconds -}}
{{- $fleet := deepCopy .Values.fleet -}}
{{- $concurrency := default dict (get $fleet "concurrency") -}}
{{- include "evalfleet.checkTimeout" (list $longest "fleet.concurrency" $concurrency) -}}
{{- range $provider, $of := default dict (get $concurrency "per_provider") -}}
{{- include "evalfleet.checkTimeout" (list $longest (printf "fleet.concurrency.per_provider.%s" $provider) $of) -}}
{{- range $model, $limits := default dict (get (default dict $of) "models") -}}
{{- include "evalfleet.checkTimeout" (list $longest (printf "fleet.concurrency.per_provider.%s.models.%s" $provider $model) $limits) -}}
{{- end -}}
{{- end -}}
{{- if not (hasKey $concurrency "timeout_seconds") -}}
{{- $_ := set $concurrency "timeout_seconds" $longest -}}
{{- end -}}
{{- $_ := set $fleet "concurrency" $concurrency -}}
{{- if hasKey $fleet "sink" -}}
{{- fail "fleet.sink: say it as sink.url, so that the controller gets the password and the network policy the port" -}}
{{- end -}}
{{- with .Values.sink.url -}}
{{- include "evalfleet.noPassword" (list "sink.url" . "its password into a Secret that sink.existingSecret names") -}}
{{- $_ := set $fleet "sink" . -}}
{{- end -}}
{{- toYaml $fleet -}}
{{- end -}}

{{/* A URL in the values is readable for everyone who may read the Deployment. */}}
{{- define "evalfleet.noPassword" -}}
{{- $url := index . 1 -}}
{{- if or (regexMatch "^[^/]*//[^/@]*:[^/@]*@" $url) (regexMatch "(?i)(^|[?&\\s])([a-z_]*password)=" $url) -}}
{{- fail (printf "%s holds a password, which everyone could read in the release: put %s" (index . 0) (index . 2)) -}}
{{- end -}}
{{- end -}}

{{/* Flags that the chart derives from other values may not be set again: (list
     name-of-the-value arguments flags). */}}
{{- define "evalfleet.extraArgs" -}}
{{- $name := index . 0 -}}
{{- $owned := index . 2 -}}
{{- range index . 1 }}
{{- $flag := . | trimPrefix "-" | trimPrefix "-" | regexFind "^[^=]*" -}}
{{- with get $owned $flag -}}
{{- fail (printf "%s: set %s instead of --%s" $name . $flag) -}}
{{- end }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* The host:port part of a URL as ports, those that are written. */}}
{{- define "evalfleet.portsOf" -}}
{{- $hosts := regexReplaceAll "^[^/]*//([^/@]*@)?([^/?]*).*$" . "${2}" -}}
{{- range regexFindAll ":[0-9]+" $hosts -1 }}{{ trimPrefix ":" . }} {{ end -}}
{{- end -}}

{{/* KEDA puts the name of a ScaledObject into a label, which has 63 characters. */}}
{{- define "evalfleet.checkName" -}}
{{- if gt (len .) 63 -}}
{{- fail (printf "%s has %d characters, and KEDA takes at most 63: shorten fullnameOverride or the pool's name" . (len .)) -}}
{{- end -}}
{{- end -}}

{{/* The Secret with the password of Redis, if it has one. */}}
{{- define "evalfleet.redisSecret" -}}
{{- with .Values.redis }}
{{- if .password.existingSecret }}{{ .password.existingSecret }}{{ else if .enabled }}{{ include "evalfleet.fullname" $ }}-redis{{ end }}
{{- end }}
{{- end -}}

{{/* What everyone is told, of Redis and the fleet's file to begin with: (list $
     values-of-the-part opens-the-sink). */}}
{{- define "evalfleet.env" -}}
{{- $root := index . 0 -}}
{{- $of := index . 1 -}}
{{- $redis := $root.Values.redis -}}
{{- $ways := 0 -}}
{{- range list $redis.enabled $redis.url $redis.existingSecret }}{{ if . }}{{ $ways = add1 $ways }}{{ end }}{{ end -}}
{{- if ne (int $ways) 1 -}}
{{- fail "redis: say one of redis.enabled: true, redis.url and redis.existingSecret, and enabled: false with the latter two" -}}
{{- end -}}
- name: EVALFLEET_REDIS
{{- if $redis.existingSecret }}
  valueFrom: {secretKeyRef: {name: {{ $redis.existingSecret }}, key: {{ $redis.existingSecretKey }}}}
{{- else if $redis.url }}
{{- include "evalfleet.noPassword" (list "redis.url" $redis.url "the whole URL into a Secret that redis.existingSecret names") }}
  value: {{ $redis.url | quote }}
{{- else }}
  value: redis://{{ include "evalfleet.fullname" $root }}-redis:6379
{{- end }}
- {name: EVALFLEET_CONFIG, value: /etc/evalfleet/fleet.yaml}
{{- with include "evalfleet.redisSecret" $root }}
- name: EVALFLEET_REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $redis.password.key }}}}
{{- if and $redis.password.existingSecret $redis.password.sentinelKey }}
- name: EVALFLEET_REDIS_SENTINEL_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ . }}, key: {{ $redis.password.sentinelKey }}}}
{{- end }}
{{- end }}
{{- with $redis.tls }}
{{- if .existingSecret }}
{{- with .caKey }}
- {name: EVALFLEET_REDIS_CA, value: /etc/evalfleet-redis/{{ . }}}
{{- end }}
{{- with .certKey }}
- {name: EVALFLEET_REDIS_CERT, value: /etc/evalfleet-redis/{{ . }}}
- {name: EVALFLEET_REDIS_KEY, value: /etc/evalfleet-redis/{{ required "redis.tls.keyKey: the key of the certificate in certKey" $redis.tls.keyKey }}}
{{- end }}
{{- with .serverName }}
- {name: EVALFLEET_REDIS_SERVER_NAME, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- with $redis.namespace }}
- {name: EVALFLEET_NAMESPACE, value: {{ . | quote }}}
{{- end }}
{{- with $root.Values.sink }}
{{- if and (index $ 2) .url .existingSecret }}
- name: PGPASSWORD
  valueFrom: {secretKeyRef: {name: {{ .existingSecret }}, key: {{ .existingSecretKey }}}}
{{- end }}
{{- end }}
- {name: GOMEMLIMIT, value: {{ include "evalfleet.memoryLimit" $of.resources.limits.memory }}} # nine tenths of the limit
{{- with $of.extraEnv }}
{{- range . }}
{{- if and (hasKey . "value") (regexMatch "(?i)(key|token|secret|password|credentials)$" .name) }}
{{- fail (printf "extraEnv: %s has a value that anyone who can read the Deployment sees; put it in a Secret and use valueFrom.secretKeyRef, or name the Secret in providerKeys.existingSecret" .name) }}
{{- end }}
{{- end }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The settings, and what TLS to Redis needs, as volumes of every pod. */}}
{{- define "evalfleet.volumes" -}}
- {name: config, configMap: {name: {{ include "evalfleet.fullname" . }}}}
{{- with .Values.redis.tls.existingSecret }}
- {name: redis-tls, secret: {secretName: {{ . }}}}
{{- end }}
{{- end -}}

{{- define "evalfleet.mounts" -}}
- {name: config, mountPath: /etc/evalfleet, readOnly: true}
{{- if .Values.redis.tls.existingSecret }}
- {name: redis-tls, mountPath: /etc/evalfleet-redis, readOnly: true}
{{- end }}
{{- end -}}

{{- define "evalfleet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What every pod of the program begins with: (list $ values-of-the-part). */}}
{{- define "evalfleet.podHead" -}}
{{- $root := index . 0 -}}
{{- $of := index . 1 -}}
serviceAccountName: {{ include "evalfleet.serviceAccount" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- include "evalfleet.placement" $of }}
{{- with $of.initContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "evalfleet.placement" -}}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $ $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Liveness asks the process alone: were Redis asked, its absence would restart the
     fleet, which drops every call in flight and mends nothing. Readiness is asked often,
     because a pod is first ready at such a moment, and is lost after half a minute. */}}
{{- define "evalfleet.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 1
  timeoutSeconds: 6
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 15
  timeoutSeconds: 6
  failureThreshold: 4
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 6
  failureThreshold: 15
{{- end -}}

{{- define "evalfleet.podAnnotations" -}}
{{- $root := index . 0 -}}
checksum/config: {{ include "evalfleet.fleet" $root | sha256sum }}
{{- if $root.Values.monitoring.podAnnotations }}
prometheus.io/scrape: "true"
prometheus.io/port: "9090"
{{- end }}
{{- with (index . 1).podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The pools of workers as YAML, a list: one without a name where none is said. A
     key of a pool takes the place of worker's. */}}
{{- define "evalfleet.pools" -}}
{{- $root := . -}}
{{- range $name, $own := (.Values.pools | default (dict "" dict)) }}
{{- $pool := deepCopy $root.Values.worker -}}
{{- range $key, $value := $own }}{{ $_ := set $pool $key $value }}{{ end -}}
{{- $full := include "evalfleet.fullname" $root }}
- {{ dict "pool" $name "name" (printf "%s-worker%s" $full (ternary "" (printf "-%s" $name) (eq $name ""))) "of" $pool | toJson }}
{{- end -}}
{{- end -}}

{{/* The labels by which a pool's pods are chosen: (list $ pool). */}}
{{- define "evalfleet.poolSelector" -}}
{{ include "evalfleet.selector" (list (index . 0) "worker") }}
{{- with (index . 1).pool }}
evalfleet/pool: {{ . }}
{{- end }}
{{- end -}}

{{- define "evalfleet.poolLabels" -}}
{{ include "evalfleet.labels" (list (index . 0) "worker") }}
{{- with (index . 1).pool }}
evalfleet/pool: {{ . }}
{{- end }}
{{- end -}}

{{/* Spread over zones and nodes, if possible: the labels that select the pods. */}}
{{- define "evalfleet.spread" -}}
{{- $labels := . -}}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- $labels | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end -}}

{{/* Evictions at the same time: (dict "name" "labels" "selector" "maxUnavailable"). */}}
{{- define "evalfleet.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels:
    {{- .labels | nindent 4 }}
spec:
  # With minAvailable, a node could not be drained while no pod is up.
  maxUnavailable: {{ .maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- .selector | nindent 6 }}
{{- end -}}
