{{- define "twinkeep.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The headless Service, which gives each pod a name. */}}
{{- define "twinkeep.nodesService" -}}
{{ include "twinkeep.name" . }}-nodes
{{- end -}}

{{- define "twinkeep.selector" -}}
app.kubernetes.io/name: twinkeep
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "twinkeep.labels" -}}
{{ include "twinkeep.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "twinkeep.scheme" -}}
{{ if .Values.secrets.tls.name }}HTTPS{{ else }}HTTP{{ end }}
{{- end -}}

{{/* Variables that the chart sets, also those that depend on values. Of two with one name Kubernetes takes the last. */}}
{{- define "twinkeep.ownEnv" -}}
POD_NAME NODE_ADDRESS HOST PORT MQTT_PORT PUBLIC_URL MQTT_PUBLIC_URL ARTIFACT_STORE STOP_DELAY DATABASE_URL MASTER_KEY
TOKEN_SIGNING_KEY DEVICE_SIGNING_KEY MASTER_KEY_NEXT MASTER_KEY_PREVIOUS TOKEN_SIGNING_KEY_NEXT TOKEN_SIGNING_KEY_PREVIOUS
DEVICE_SIGNING_KEY_NEXT DEVICE_SIGNING_KEY_PREVIOUS REDIS_URL METRICS_TOKEN TLS_CERT TLS_KEY MQTT_TLS_PORT
{{- end -}}

{{- define "twinkeep.checkExtraEnv" -}}
{{- $own := concat (regexSplit "\\s+" (include "twinkeep.ownEnv" .) -1) (keys .Values.settings) -}}
{{- $refused := list -}}
{{- range .Values.extraEnv -}}
{{- if has .name $own }}{{ $refused = append $refused .name }}{{ end -}}
{{- end -}}
{{- if $refused }}{{ fail (printf "extraEnv has names that the chart or settings set: %s" (join ", " $refused)) }}{{ end -}}
{{- end -}}
