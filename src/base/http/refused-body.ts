import type { FastifyReply, FastifyRequest } from "fastify";

/** The largest body that a server still reads and discards when it refuses a request. */
const REFUSED_BYTES_MAX = 64 * 2 ** 20;

/**
 * Prepares the response to a request whose body may not have been read. If the connection were closed during the body,
 * the client would see a network error instead of the response. So the server reads a body of moderate length to its
 * end. `isLengthRequired` refuses this for bodies of unknown length; for the others the time limit of requests applies.
 */
export function keepOpenForBody(
  request: FastifyRequest,
  reply: FastifyReply,
  isLengthRequired: boolean,
): void {
  const { "content-length": length, "transfer-encoding": encoding } = request.headers;
  const isRead =
    length === undefined
      ? encoding !== undefined && !isLengthRequired
      : Number(length) <= REFUSED_BYTES_MAX;
  if (isRead) reply.removeHeader("connection");
}
