import { appResource } from "../support/app-resource.ts";
import { FakeIngress } from "../support/fake-ingress.ts";
import { VirtualClock } from "../support/virtual-clock.ts";
import { type IngressHarness, ingressContract } from "./ingress-contract.ts";

ingressContract("the fake", async (): Promise<IngressHarness> => {
  const clock = new VirtualClock();
  let ingress = new FakeIngress({ clock });
  return {
    ingress,
    addApp: async (name) => appResource(name, { image: "web:1", port: 8080 }),
    targets: ["127.0.0.1:1", "127.0.0.1:2"],
    ask: async (app) => ingress.routes.get(app)?.targets[0] ?? 503,
    restart: async () => {
      ingress = new FakeIngress({ clock, routes: ingress.routes });
      return ingress;
    },
    now: () => clock.now(),
    pass: (ms) => clock.advance(ms),
    [Symbol.asyncDispose]: async () => {},
  };
});
