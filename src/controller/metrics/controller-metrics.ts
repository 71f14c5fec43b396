import { Counter, Gauge, Histogram, type Registry } from "prom-client";

/**
 * The metrics of the controllers. They have the names that controller-runtime and client-go use, so that dashboards
 * for these projects can show them.
 */
export interface ControllerMetrics {
  readonly reconcileTotal: Counter<"controller" | "result">;
  readonly reconcileSeconds: Histogram<"controller">;
  readonly activeWorkers: Gauge<"controller">;
  readonly queueDepth: Gauge<"name">;
  readonly queueSeconds: Histogram<"name">;
  readonly queueAdds: Counter<"name">;
  readonly queueRetries: Counter<"name">;
  readonly engineCalls: Counter<"call">;
}

export function createControllerMetrics(registry: Registry): ControllerMetrics {
  const registers = [registry];
  const buckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
  return {
    reconcileTotal: new Counter({
      name: "controller_runtime_reconcile_total",
      help: "Number of reconciles, by result",
      labelNames: ["controller", "result"],
      registers,
    }),
    reconcileSeconds: new Histogram({
      name: "controller_runtime_reconcile_time_seconds",
      help: "Duration of one reconcile in seconds",
      labelNames: ["controller"],
      buckets,
      registers,
    }),
    activeWorkers: new Gauge({
      name: "controller_runtime_active_workers",
      help: "Number of workers that are reconciling",
      labelNames: ["controller"],
      registers,
    }),
    queueDepth: new Gauge({
      name: "workqueue_depth",
      help: "Number of keys that wait in the queue",
      labelNames: ["name"],
      registers,
    }),
    queueSeconds: new Histogram({
      name: "workqueue_queue_duration_seconds",
      help: "Time that a key waited in the queue, in seconds",
      labelNames: ["name"],
      buckets,
      registers,
    }),
    queueAdds: new Counter({
      name: "workqueue_adds_total",
      help: "Number of keys that were added to the queue",
      labelNames: ["name"],
      registers,
    }),
    queueRetries: new Counter({
      name: "workqueue_retries_total",
      help: "Number of keys that wait for a retry after a failure",
      labelNames: ["name"],
      registers,
    }),
    engineCalls: new Counter({
      name: "berth_engine_calls_total",
      help: "Number of calls to the container engine",
      labelNames: ["call"],
      registers,
    }),
  };
}
