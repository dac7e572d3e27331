{{/* The flags: root and the selector of labels. */}}
{{- define "pipeline-controller.args" -}}
{{- $values := .root.Values -}}
- controller
- --log-encoding={{ $values.logging.encoding }}
- --log-level={{ $values.logging.level }}
- --promotion-hook-rate-limit={{ $values.promotion.rateLimit.value }}
- --promotion-hook-rate-limit-interval={{ $values.promotion.rateLimit.interval }}
- --detect={{ $values.controller.detect }}
{{- with include "pipeline-controller.eventsAddr" .root }}
- --events-addr={{ . }}
{{- end }}
{{- with $values.controller.manager.eventsReasons }}
- --events-reasons={{ join "," . }}
{{- end }}
{{- with $values.checks.hosts }}
- {{ printf "--check-hosts=%s" (join "," .) | quote }}
{{- end }}
{{- with $values.dashboard.url }}
- --dashboard-url={{ . }}
{{- end }}
{{- with $values.dashboard.oidc }}
{{- if .issuerURL }}
{{- $_ := required "dashboard.oidc.issuerURL needs dashboard.url: the provider sends browsers back there" $values.dashboard.url }}
- --oidc-issuer-url={{ .issuerURL }}
- {{ printf "--oidc-client-id=%s" (required "dashboard.oidc.issuerURL needs dashboard.oidc.clientID" .clientID) | quote }}
- {{ printf "--oidc-scopes=%s" (join "," .scopes) | quote }}
- {{ printf "--oidc-username-claim=%s" .usernameClaim | quote }}
{{- with .usernamePrefix }}
- {{ printf "--oidc-username-prefix=%s" . | quote }}
{{- end }}
{{- with .groupsClaim }}
- {{ printf "--oidc-groups-claim=%s" . | quote }}
{{- end }}
{{- with .groupsPrefix }}
- {{ printf "--oidc-groups-prefix=%s" . | quote }}
{{- end }}
{{- with .requiredClaims }}
- {{ printf "--oidc-required-claim=%s" (join "," .) | quote }}
{{- end }}
- --oidc-signing-algs={{ join "," .signingAlgs }}
- --oidc-session-duration={{ .sessionDuration }}
{{- if .secretName }}
- --oidc-client-secret-file=/oidc/client-secret
{{- end }}
{{- if .caSecretName }}
- --oidc-ca-file=/oidc-ca/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- with $values.controller.watchNamespace }}
- --watch-namespace={{ . }}
{{- end }}
{{- with .watchLabelSelector }}
- {{ printf "--watch-label-selector=%s" . | quote }}
{{- end }}
{{- if $values.tls.secretName }}
- --tls-cert-file=/tls/tls.crt
- --tls-key-file=/tls/tls.key
{{- end }}
{{- with $values.controller.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A Deployment: root, name, labels to select by, selector of labels, replicas. */}}
{{- define "pipeline-controller.deployment" -}}
{{- $controller := .root.Values.controller -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "pipeline-controller.labels" .root | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- .labels | nindent 6 }}
  template:
    metadata:
      labels:
        {{- .labels | nindent 8 }}
        app.kubernetes.io/part-of: {{ include "pipeline-controller.fullname" .root }}
        {{- with $controller.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: manager
        {{- with $controller.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "pipeline-controller.fullname" .root }}
      terminationGracePeriodSeconds: 30
      shareProcessNamespace: true
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with pick $controller "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "priorityClassName" }}
      {{- range $field, $value := . }}
      {{- if $value }}
      {{- toYaml (dict $field $value) | nindent 6 }}
      {{- end }}
      {{- end }}
      {{- end }}
      containers:
      - name: manager
        image: {{ include "pipeline-controller.image" .root | quote }}
        imagePullPolicy: {{ $controller.manager.image.pullPolicy }}
        command: [/usr/local/bin/sluice]
        args:
        {{- include "pipeline-controller.args" . | nindent 8 }}
        env:
        - {name: SLUICE_GIT_FOLDER, value: /tmp/git}
        {{- with $controller.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $controller.extraEnvFrom }}
        envFrom:
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: metrics, containerPort: 8080}
        - {name: health, containerPort: 8081}
        - {name: promotion, containerPort: 8082}
        - {name: dashboard, containerPort: 8083}
        livenessProbe:
          httpGet: {path: /healthz, port: health}
        readinessProbe:
          httpGet: {path: /readyz, port: health}
        {{- with $controller.manager.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
        volumeMounts:
        - {name: mirrors, mountPath: /tmp}
        {{- if .root.Values.tls.secretName }}
        - {name: tls, mountPath: /tls, readOnly: true}
        {{- end }}
        {{- with .root.Values.dashboard.oidc }}
        {{- if and .issuerURL .secretName }}
        - {name: oidc, mountPath: /oidc, readOnly: true}
        {{- end }}
        {{- if and .issuerURL .caSecretName }}
        - {name: oidc-ca, mountPath: /oidc-ca, readOnly: true}
        {{- end }}
        {{- end }}
        {{- with $controller.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
      - name: mirrors
        emptyDir:
          sizeLimit: {{ $controller.mirrorsSize }}
      {{- with .root.Values.tls.secretName }}
      - name: tls
        secret:
          secretName: {{ . }}
      {{- end }}
      {{- with .root.Values.dashboard.oidc }}
      {{- if and .issuerURL .secretName }}
      - name: oidc
        secret:
          secretName: {{ .secretName }}
          items: [{key: client-secret, path: client-secret}]
      {{- end }}
      {{- if and .issuerURL .caSecretName }}
      - name: oidc-ca
        secret:
          secretName: {{ .caSecretName }}
          items: [{key: ca.crt, path: ca.crt}]
      {{- end }}
      {{- end }}
      {{- with $controller.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}
