import { randomUUID } from "node:crypto";
import {
  constants,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Duplex } from "node:stream";
import protobuf from "protobufjs/minimal.js";
import { forEachField } from "./docker-build-trace.ts";
import type { DockerConnection } from "./docker-connection.ts";
import { STREAM_OPEN_LIMIT_MS } from "./docker-limits.ts";
import { findAuth } from "./docker-registry-auth.ts";
import type { RegistryAuth } from "./port.ts";

const CREDENTIALS = "/moby.filesync.v1.Auth/Credentials";
const HEALTH = "/grpc.health.v1.Health/Check";
/** The maximum size of a request, which contains only a host name. */
const REQUEST_BYTES_MAX = 64 * 1024;
const UNIMPLEMENTED = 12;
const INVALID_ARGUMENT = 3;

/**
 * A session for BuildKit. BuildKit calls its client with gRPC over a connection that the client opens. Without this
 * session, BuildKit cannot pull from registries that require a token, such as the default registry for public images.
 * BuildKit asks for the credentials of a host, and gets only those of that host. BuildKit also checks the health of the
 * session, and closes the session after some seconds without a response. (dockerode's own session sends the same
 * credentials to every host, and answers no health checks.)
 */
export class BuildSession implements AsyncDisposable {
  readonly id: string;
  readonly #socket: Duplex;
  readonly #http: ServerHttp2Session;

  private constructor(id: string, socket: Duplex, auths: readonly RegistryAuth[]) {
    this.id = id;
    this.#socket = socket;
    this.#http = performServerHandshake(socket);
    // A broken session is not an error here, because it fails the build that needs it.
    this.#http.on("error", () => {});
    this.#http.on("stream", (stream, headers) => {
      stream.on("error", () => {});
      handleRequest(stream, headers[":path"] ?? "", auths);
    });
  }

  /** Opens the session. Throws the errors that any call to the engine can throw, such as `engine_unreachable`. */
  static async open(
    connection: DockerConnection,
    auths: readonly RegistryAuth[],
    signal: AbortSignal,
  ): Promise<BuildSession> {
    const id = randomUUID();
    const socket = await connection.upgrade("open a build session", STREAM_OPEN_LIMIT_MS, signal, {
      method: "POST",
      path: "/session",
      headers: {
        Upgrade: "h2c",
        "X-Docker-Expose-Session-Uuid": id,
        "X-Docker-Expose-Session-Name": "berth",
        "X-Docker-Expose-Session-Grpc-Method": CREDENTIALS,
      },
    });
    return new BuildSession(id, socket, auths);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#http.destroy();
    this.#socket.destroy();
  }
}

function handleRequest(
  stream: ServerHttp2Stream,
  method: string,
  auths: readonly RegistryAuth[],
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream.on("data", (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > REQUEST_BYTES_MAX) stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    else chunks.push(chunk);
  });
  stream.on("end", () => {
    if (stream.destroyed) return;
    if (method === HEALTH)
      return reply(stream, protobuf.Writer.create().uint32(8).uint32(1).finish());
    if (method !== CREDENTIALS) return replyError(stream, UNIMPLEMENTED);
    try {
      reply(stream, encodeCredentials(parseHost(Buffer.concat(chunks)), auths));
    } catch {
      replyError(stream, INVALID_ARGUMENT);
    }
  });
}

/** Parses `CredentialsRequest { string Host = 1 }` after gRPC's five bytes: a compression flag and the length. */
function parseHost(body: Buffer): string {
  let host = "";
  forEachField(body.subarray(5, 5 + body.readUInt32BE(1)), (field, reader) => {
    if (field !== 1) return false;
    host = reader.string();
    return true;
  });
  return host;
}

/**
 * Encodes `CredentialsResponse { string Username = 1; string Secret = 2 }`. Without credentials, the message is empty.
 */
function encodeCredentials(host: string, auths: readonly RegistryAuth[]): Uint8Array {
  const auth = findAuth(host, auths);
  const writer = protobuf.Writer.create();
  if (auth) writer.uint32(10).string(auth.username).uint32(18).string(auth.password);
  return writer.finish();
}

function reply(stream: ServerHttp2Stream, message: Uint8Array): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.end(Buffer.concat([head, message]));
}

function replyError(stream: ServerHttp2Stream, status: number): void {
  stream.respond(
    { ":status": 200, "content-type": "application/grpc", "grpc-status": String(status) },
    { endStream: true },
  );
}
