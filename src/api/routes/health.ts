import { HealthView } from "../../resources/wire/system.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { NoQuery, responses } from "../route-schemas.ts";

export function healthRoutes(api: Api, context: ApiContext): void {
  const { control, clock, version, startedAtMs } = context;
  api.get(
    "/api/health",
    {
      config: { access: "public" },
      schema: {
        summary: "Is the service up, and does it reach the container engine?",
        description: "Responds 200 for as long as the process lives. Needs no token.",
        tags: ["system"],
        querystring: NoQuery,
        response: responses({ 200: HealthView }),
      },
    },
    async () => {
      const engine = control.engine();
      // This route needs no token, so its message hides the host and the data directory of another Berth server that
      // writes to the same engine. `berth status` shows both.
      const otherWriter =
        engine.connected && engine.otherWriter !== null
          ? "another Berth with the same identity writes to the engine; see `berth status`"
          : undefined;
      const message = control.diskProblem() ?? otherWriter;
      return {
        status: engine.connected && message === undefined ? ("ok" as const) : ("degraded" as const),
        runtime: engine.connected ? ("connected" as const) : ("disconnected" as const),
        version,
        uptime_seconds: Math.floor((clock.now() - startedAtMs) / 1000),
        ...(message === undefined ? {} : { message }),
      };
    },
  );
}
