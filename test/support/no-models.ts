import { Registry } from "prom-client";
import { BerthError } from "../../src/base/errors.ts";
import type { ControllerManagerOptions } from "../../src/controller/controller-manager.ts";
import { modelMetrics } from "../../src/controller/models/model-metrics.ts";
import type { Store } from "../../src/store/store.ts";

const away = async (): Promise<never> => {
  throw new BerthError("assistant_unreachable", "there is no assistant here");
};

/** Returns an environment for tests without Models. It has neither a hub nor an assistant. */
export function noModels(store: Pick<Store, "list">): ControllerManagerOptions["models"] {
  return {
    sources: { resolve: away, tokenFor: (_, given) => given },
    files: {
      find: async () => undefined,
      storedBytes: async () => 0,
      download: away,
      verify: away,
      remove: async () => {},
      collect: async () => [],
    },
    assistant: {
      state: away,
      inspect: away,
      load: away,
      unload: away,
      setContainerListeners: away,
    },
    daemon: {
      report: () => ({ state: "off", url: null, pid: null, starts: 0, message: null }),
    },
    metrics: modelMetrics(new Registry(), store),
  };
}
