import type { ProbeResult, ProbeTarget } from "../../src/controller/runtime/port.ts";
import type { FakeContainer } from "./fake-engine.ts";

/** Returns the result of a probe of a fake container at `now` (epoch milliseconds). */
export function probeFake(
  container: FakeContainer | undefined,
  target: ProbeTarget,
  now: number,
): ProbeResult {
  if (container?.state !== "running" || container.startedMs === null)
    return { healthy: false, message: "the container is not running" };
  const { image } = container;
  const ready = now >= container.startedMs + (image.readyAfterMs ?? 0);
  const healthy =
    ready && !container.unhealthy && now >= container.startedMs + (image.healthyAfterMs ?? 0);

  if (target.type === "command") {
    const { exitCode, output } = image.exec?.(target.command) ?? {
      exitCode: healthy ? 0 : 1,
      output: "",
    };
    return {
      healthy: exitCode === 0 && healthy,
      message: `${target.command.join(" ")} exited with ${exitCode}${output ? `: ${output.trim()}` : ""}`,
    };
  }
  if (!ready || (image.listensOn && !image.listensOn.includes(target.port)))
    return { healthy: false, message: `port ${target.port}: connection refused` };
  if (target.type === "tcp")
    return container.unhealthy
      ? { healthy: false, message: `port ${target.port}: connection refused` }
      : { healthy: true, message: `port ${target.port} accepts connections` };
  if (target.type === "web" && image.speaks === "other")
    return { healthy: true, message: `GET ${target.path}: the answer is not HTTP` };
  if (target.type === "web" && image.speaks === "nothing")
    return { healthy: false, message: `GET ${target.path} did not answer`, isSilent: true };
  return { healthy, message: `GET ${target.path} answered ${healthy ? 200 : 503}` };
}
