import { expect, test } from "vitest";
import { buildDesiredApp } from "../../../../src/controller/apps/desired-app.ts";
import { noIngress } from "../../../../src/controller/ingress/no-ingress.ts";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { appResource } from "../../../support/app-resource.ts";

/**
 * Existing containers are compared with the settings that follow from a spec. If this test fails after a change of the
 * code, raise CONTAINER_FORMAT, so that an update of Berth replaces containers in a rollout, and does not treat them as
 * drifted.
 */
test("a spec gives the same container settings as in earlier versions with the same format number", () => {
  const spec: AppSpec = {
    image: "web:1",
    port: 8080,
    env: { TEXT: "a b", NUMBER: 8080, SWITCH: true, TOKEN: { secret: "token" } },
    entrypoint: ["/bin/web"],
    command: ["serve"],
    user: "1000:1000",
    workingDir: "/srv",
    resources: { memory: "256Mi", cpu: "0.5" },
    volumes: [
      { name: "data", path: "/data" },
      { hostPath: "/usr/share", path: "/share", readOnly: true },
    ],
    ports: [{ host: 5353, container: 53, protocol: "udp" }],
    stopGracePeriod: "5s",
    models: ["small"],
  };
  const { containers } = buildDesiredApp({
    instance: "0123abcd",
    resource: appResource("web", spec),
    spec,
    image: { reference: "web:1", id: "sha256:1", digest: null },
    revealSecret: () => "revealed",
    ingress: noIngress,
    loopbackPort: () => 20_000,
  });
  expect(containers[0]).toMatchObject({
    // The name contains the hash of all other settings, so an equal name means that they are equal.
    name: "berth-0123abcd-web-63f5dcbf-0",
    publish: [
      { containerPort: 8080, protocol: "tcp", hostAddress: "127.0.0.1", hostPort: 20_000 },
      { containerPort: 53, protocol: "udp", hostAddress: "0.0.0.0", hostPort: 5353 },
    ],
  });
});
