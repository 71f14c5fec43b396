import type { Ingress } from "./port.ts";

/** The ingress for `--ingress off`: apps are published on loopback ports, without a proxy. */
export const noIngress: Ingress = {
  mode: "off",
  reachability: "published",
  table: {
    read: () => Promise.resolve(null),
    write: () => Promise.resolve(),
    retainTargets: () => Promise.resolve(null),
    remove: () => Promise.resolve(),
  },
  state: () => ({ ready: false, message: "there is no ingress (--ingress off)" }),
  verdict: () => undefined,
  api: () => undefined,
  url: (domain, https, path) => `${https ? "https" : "http"}://${domain}${path}`,
};
