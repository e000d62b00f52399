{{- define "tonnage.prefix" -}}{{ .Values.namePrefix | default "bigfleet" | trunc 40 }}{{- end }}
{{- define "tonnage.image" -}}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{- end }}
{{- define "tonnage.account" -}}{{ .Values.serviceAccount.name | default (include "tonnage.prefix" .) }}{{- end }}
{{- define "tonnage.labels" -}}
app.kubernetes.io/name: tonnage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
{{- define "tonnage.select" -}}
app.kubernetes.io/name: tonnage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{/* What every container of ours may not do. */}}
{{- define "tonnage.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{/* Addresses of the coordinators, as a shard takes them. */}}
{{- define "tonnage.coordinators" -}}
{{- $p := include "tonnage.prefix" . -}}
{{- $root := . -}}
{{- range $i := until (int .Values.coordinator.replicas) -}}
{{- if $i }},{{ end -}}
{{ $p }}-coordinator-{{ $i }}.{{ $p }}-coordinator.{{ $root.Release.Namespace }}.svc:{{ $root.Values.coordinator.service.grpcPort }}
{{- end -}}
{{- end }}
