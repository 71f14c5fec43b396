import type { Socket } from "node:net";
import { loopbackOrigin } from "../../../base/http/loopback-host.ts";
import { AssistantError } from "../../assistant-error.ts";
import { findPeerSocket } from "./peer-socket.ts";

/** The clients that may use the port. */
export interface ClientAccess {
  /** True if web pages with this value of the Origin header may use the port. */
  readonly allowsOrigin: (origin: string) => boolean;
  /** The user whose programs may use the port, in addition to root's. Undefined if every user's programs may. */
  readonly owner?: PortOwner;
}

export interface PortOwner {
  readonly uid: number;
  /** True while the owner lets all other users of the machine use the port, too. */
  readonly servesOtherUsers: () => boolean;
}

/** The access of a port that serves every program and every web page of this machine. */
export const localAccess: ClientAccess = {
  allowsOrigin: (origin) => loopbackOrigin.test(origin),
};

/**
 * Resolves to the user of a connection's client, undefined if it cannot be found. Rejects with AssistantError
 * `forbidden` if the owner of the port does not serve that user.
 */
export async function checkPeerUser(
  socket: Socket,
  { uid, servesOtherUsers }: PortOwner,
): Promise<number | undefined> {
  const user = (await findPeerSocket(socket))?.uid;
  if (user === uid || user === 0 || servesOtherUsers()) return user;
  const whose = user === undefined ? "the user of this client cannot be found" : "it is not yours";
  throw new AssistantError(
    "forbidden",
    `this port serves only the programs of one user, and ${whose}; that user can set serve_other_users: true in companion.yaml`,
  );
}
