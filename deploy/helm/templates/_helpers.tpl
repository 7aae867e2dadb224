{{- define "longshore.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains "longshore" $name) }}{{ $name = printf "%s-longshore" $name }}{{ end }}
{{- $name | trunc 54 | trimSuffix "-" }}
{{- end }}

{{/* What selects the pods, Services and policies of a component: a list of the context and its name, or of the context alone for all. */}}
{{- define "longshore.selector" -}}
app.kubernetes.io/name: longshore
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- if gt (len .) 1 }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}
{{- end }}

{{- define "longshore.labels" -}}
{{ include "longshore.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The claim of the object store; nothing with S3. */}}
{{- define "longshore.claim" -}}
{{- $store := .Values.objectStore }}
{{- $ways := list .Values.settings.LONGSHORE_OBJECT_STORE $store.existingClaim $store.size | compact }}
{{- if ne (len $ways) 1 }}
{{- fail "the object store is one of: settings.LONGSHORE_OBJECT_STORE (s3://bucket), objectStore.existingClaim, objectStore.size" }}
{{- end }}
{{- $store.existingClaim | default (ternary (printf "%s-objects" (include "longshore.name" .)) "" (ne $store.size "")) }}
{{- end }}

{{/* What the pods of all components have in common, but their containers: a list of the context and the claim. */}}
{{- define "longshore.pod" -}}
{{- $claim := index . 1 }}
{{- with index . 0 -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.pod }}
{{- with .serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
automountServiceAccountToken: false
# Services would become variables that look like settings, such as LONGSHORE_API_PORT
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  # who owns the files of the object store
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- if or $claim .Values.pod.volumes }}
volumes:
  {{- with $claim }}
  - name: objects
    persistentVolumeClaim: {claimName: {{ . }}}
  {{- end }}
  {{- with .Values.pod.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the containers of all components have in common: a dictionary of context, secret (its name), secrets (settings in
it, each with its name and whether it is optional), and where they have one tag and claim. */}}
{{- define "longshore.container" -}}
image: {{ printf "%s:%s" .context.Values.image.repository (.tag | default .context.Values.image.tag | default .context.Chart.AppVersion) }}
imagePullPolicy: {{ .context.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  {{- range .secrets }}
  - name: {{ .name }}
    valueFrom:
      secretKeyRef: {name: {{ $.secret }}, key: {{ .name }}{{ if .optional }}, optional: true{{ end }}}
  {{- end }}
  {{- range $name, $value := .context.Values.settings }}
  - name: {{ $name }}
    {{- /* a number as it was written: Helm would print a million as 1e+06 */}}
    value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
  {{- end }}
{{- if or .claim .context.Values.pod.volumeMounts }}
volumeMounts:
  {{- with .claim }}
  - name: objects
    mountPath: /var/lib/longshore
  {{- end }}
  {{- with .context.Values.pod.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The rules of a NetworkPolicy for what every pod may connect to. */}}
{{- define "longshore.egress" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- with .Values.networkPolicy.egress }}
{{ toYaml . }}
{{- end }}
{{- end }}
