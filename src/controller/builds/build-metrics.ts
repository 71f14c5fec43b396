import { Counter, Gauge, Histogram, type Registry } from "prom-client";

export interface BuildMetrics {
  readonly builds: Counter<"result">;
  readonly seconds: Histogram;
  readonly waiting: Gauge;
}

export function buildMetrics(registry: Registry): BuildMetrics {
  const registers = [registry];
  return {
    builds: new Counter({
      name: "berth_builds_total",
      help: "Finished builds by result",
      labelNames: ["result"],
      registers,
    }),
    seconds: new Histogram({
      name: "berth_build_seconds",
      help: "Duration of a build in seconds",
      buckets: [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600],
      registers,
    }),
    waiting: new Gauge({
      name: "berth_builds_waiting",
      help: "Queued builds",
      registers,
    }),
  };
}
