import { Gauge, type Registry } from "prom-client";
import { modelPhases } from "../../resources/model-status.ts";
import type { Store } from "../../store/store.ts";

export interface ModelMetrics {
  readonly models: Gauge<"phase">;
  readonly bytes: Gauge;
}

/** Creates the gauges, which read the store when they are collected. */
export function modelMetrics(registry: Registry, store: Pick<Store, "list">): ModelMetrics {
  const registers = [registry];
  return {
    models: new Gauge({
      name: "berth_models",
      help: "Number of Models, by phase",
      labelNames: ["phase"],
      registers,
      collect() {
        const phases = store.list("Model").map(({ status }) => status?.phase ?? "absent");
        for (const phase of modelPhases)
          this.set({ phase }, phases.filter((one) => one === phase).length);
      },
    }),
    bytes: new Gauge({
      name: "berth_model_downloaded_bytes",
      help: "Bytes of all Models on the disk; a file that two Models share counts twice",
      registers,
      collect() {
        this.set(
          store.list("Model").reduce((sum, { status }) => sum + (status?.downloadedBytes ?? 0), 0),
        );
      },
    }),
  };
}
