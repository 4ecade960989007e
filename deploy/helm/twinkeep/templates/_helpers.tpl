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
