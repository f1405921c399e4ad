# The command, static and without a shell: docker build -t redlock . && docker run --rm redlock --version
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -o /redlock ./cmd/redlock

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /redlock /redlock
USER 65534:65534
ENTRYPOINT ["/redlock"]
