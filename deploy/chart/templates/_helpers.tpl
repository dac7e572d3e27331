{{/* The name that objects carry as a label. */}}
{{- define "pipeline-controller.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name that objects begin with: the release's, with ours unless it is in there already. */}}
{{- define "pipeline-controller.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $full | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "pipeline-controller.promotionName" -}}
{{- .Values.promotion.service.name | default (printf "%s-promotion" (include "pipeline-controller.fullname" .)) -}}
{{- end -}}

{{- define "pipeline-controller.dashboardName" -}}
{{- .Values.dashboard.service.name | default (printf "%s-dashboard" (include "pipeline-controller.fullname" .)) -}}
{{- end -}}

{{/* What Deployments and Services select by. It cannot be changed once installed. */}}
{{- define "pipeline-controller.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pipeline-controller.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pipeline-controller.labels" -}}
{{ include "pipeline-controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Not empty where values name the Weave controller's image or one of its releases. */}}
{{- define "pipeline-controller.weaveImage" -}}
{{- if eq .Values.controller.manager.image.repository "ghcr.io/weaveworks/pipeline-controller" }}repository{{ end -}}
{{- end -}}
{{- define "pipeline-controller.weaveTag" -}}
{{- if regexMatch "^v0[.]0[.][0-9]+" (toString .Values.controller.manager.image.tag) }}tag{{ end -}}
{{- end -}}

{{- define "pipeline-controller.image" -}}
{{- $image := .Values.controller.manager.image -}}
{{- $repository := ternary "sluice" $image.repository (ne (include "pipeline-controller.weaveImage" .) "") -}}
{{- $tag := ternary "" $image.tag (ne (include "pipeline-controller.weaveTag" .) "") -}}
{{- printf "%s:%s" $repository (toString ($tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{/* Whether the cluster has ServiceMonitors and PrometheusRules; helm refuses a release with kinds that are not served. */}}
{{- define "pipeline-controller.hasPrometheusOperator" -}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
yes
{{- end -}}
{{- end -}}

{{/* Where events go; nothing if nowhere. */}}
{{- define "pipeline-controller.eventsAddr" -}}
{{- $given := .Values.controller.manager.eventsAddr -}}
{{- if kindIs "string" $given -}}
{{- $given -}}
{{- else -}}
{{- printf "http://notification-controller.flux-system.svc.%s./" .Values.kubernetesClusterDomain -}}
{{- end -}}
{{- end -}}

{{/* An Ingress: root, name, port and the values of it. */}}
{{- define "pipeline-controller.ingress" -}}
{{- $service := . -}}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pipeline-controller.labels" .root | nindent 4 }}
    {{- with .ingress.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .ingress.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with .ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .ingress.tls }}
  tls:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  rules:
  {{- range .ingress.hosts }}
  - host: {{ .host | quote }}
    http:
      paths:
      {{- range .paths }}
      - path: {{ .path | quote }}
        pathType: {{ .pathType | default "ImplementationSpecific" }}
        backend:
          service:
            name: {{ $service.name }}
            port:
              number: {{ $service.port }}
      {{- end }}
  {{- end }}
{{- end -}}

{{/* A Service of a port: root, name, target and the values of it. */}}
{{- define "pipeline-controller.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pipeline-controller.labels" .root | nindent 4 }}
    {{- with .service.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .service.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .service.type }}
  selector:
    {{- include "pipeline-controller.selectorLabels" .root | nindent 4 }}
  ports:
  - name: {{ .target }}
    port: {{ .service.port }}
    targetPort: {{ .target }}
    {{- if and (ne .service.type "ClusterIP") .service.nodePort }}
    nodePort: {{ .service.nodePort }}
    {{- end }}
{{- end -}}

{{/* A shard's pods are not those of the first Deployment: root and the shard's name. */}}
{{- define "pipeline-controller.shardLabels" -}}
app.kubernetes.io/name: {{ include "pipeline-controller.name" .root }}-shard
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .shard }}
{{- end -}}
