import type { FastifyInstance } from "fastify";
import { type Static, Type } from "typebox";

/**
 * The maximum number of subnets from which containers may connect. It is higher than the number of stacks on any
 * server.
 */
const SUBNETS_MAX = 2_000;

const ListenersBody = Type.Object(
  {
    listeners: Type.Array(
      Type.Object(
        {
          /** An IP address of this machine, on the loopback interface or on a bridge. */
          address: Type.String({ minLength: 1, maxLength: 64 }),
          port: Type.Integer({ minimum: 1, maximum: 65_535 }),
          /** The host name that requests must have in their Host header. */
          host: Type.String({
            pattern: "^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$",
            maxLength: 253,
          }),
          subnets: Type.Array(Type.String({ maxLength: 64 }), {
            minItems: 1,
            maxItems: SUBNETS_MAX,
          }),
        },
        { additionalProperties: false },
      ),
      { maxItems: 8 },
    ),
  },
  { additionalProperties: false },
);
type ListenersBody = Static<typeof ListenersBody>;

/** Opens the given listeners and closes all others. Rejects with AssistantError `invalid_request`. */
export type OpenListeners = (listeners: ListenersBody["listeners"]) => Promise<void>;

/**
 * Serves PUT /listeners, which sets the addresses at which containers reach the endpoint. Responds when the listeners
 * are open.
 */
export function listenerRoutes(http: FastifyInstance, openListeners: OpenListeners): void {
  http.put<{ Body: ListenersBody }>(
    "/listeners",
    { schema: { body: ListenersBody } },
    async ({ body }) => {
      await openListeners(body.listeners);
      return body;
    },
  );
}
