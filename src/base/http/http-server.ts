import { randomUUID } from "node:crypto";
import type { Server } from "node:http";
import type { Socket } from "node:net";
import { SerializerSelector } from "@fastify/fast-json-stringify-compiler";
import Fastify, {
  type FastifyHttpOptions,
  type FastifyInstance,
  type FastifyRequest,
} from "fastify";
import type { Clock } from "../clock.ts";
import { BodyBudget, type BodyBudgetOptions, type Sender } from "./body-budget.ts";
import { HttpConnections } from "./http-connections.ts";
import {
  answerMalformedRequest,
  type MalformedRequestResponse,
  SLOW_BODY,
} from "./malformed-request.ts";
import { type BodyRate, detectSlowBodies } from "./slow-body.ts";
import { drainUnreadBodies } from "./unread-body.ts";

/**
 * The largest length of a path parameter. It is longer than any name or id, so that a slightly too long one still gets
 * a specific error.
 */
const PARAM_LENGTH_MAX = 2048;

/** Fastify's own compiler of serializers. It needs no shared schemas, because no route refers to one. */
const compileSerializer = SerializerSelector()();

export interface HttpServerOptions {
  readonly clock: Clock;
  /** The time in which requests in progress may finish when the server closes. */
  readonly closeGraceMs: number;
  /** Called when the server begins to close. */
  readonly onClosing: () => void;
  /** Returns the response to data that is not valid HTTP, in the server's own error format. */
  readonly toMalformedResponse: (status: number, message: string) => MalformedRequestResponse;
  /** The accepted content types of request bodies. Fastify refuses all others. */
  readonly jsonContentType: RegExp;
  /** Parses a body. Throws the error that the server responds with if the body is not valid. */
  readonly parseJson: (body: Buffer, request: FastifyRequest) => unknown;
  /**
   * The maximum total size of the bodies of all requests that have no response yet; by default, there is no limit.
   * Bodies of routes with a higher limit for one body do not count.
   */
  readonly allBodies?: BodyBudgetOptions & {
    /** Resolves to the sender of a request, whose share of the size is limited. Must not reject. */
    readonly findSender: (request: FastifyRequest) => Promise<Sender>;
  };
  /** The minimum rate at which a client must send a body; by default, there is none. */
  readonly bodyRate?: BodyRate;
  /** Additional options of Fastify itself. */
  readonly fastify: FastifyHttpOptions<Server>;
}

/**
 * Creates an HTTP server with what all servers of Berth have in common: request ids, the response to malformed
 * requests, JSON bodies, and a `close()` that ends requests in progress gracefully. It has no routes and no error
 * format yet.
 */
export function createHttpServer(options: HttpServerOptions): {
  readonly server: FastifyInstance;
  readonly connections: HttpConnections;
} {
  const { clock, fastify } = options;
  const refuse = (error: Error, socket: Socket) =>
    answerMalformedRequest(error, socket, clock, options.toMalformedResponse);
  const server: FastifyInstance = Fastify({
    ...fastify,
    logger: false,
    genReqId: (request) => chooseRequestId(request.headers["x-request-id"]),
    requestIdHeader: false,
    routerOptions: { maxParamLength: PARAM_LENGTH_MAX, ...fastify.routerOptions },
    clientErrorHandler: refuse,
    // Node's own check of the Host header is off, because the servers respond to a missing Host header in their own
    // formats.
    http: { requireHostHeader: false, ...fastify.http },
  });
  // An unknown Expect header is ignored, as HTTP allows. Node would respond with an error without a body.
  server.server.on("checkExpectation", (request, response) =>
    server.server.emit("request", request, response),
  );
  server.setSerializerCompiler(({ httpStatus = "", ...route }) => {
    // The serializer is compiled at the first response, because compiling all serializers takes a tenth of the time
    // of a server's start.
    let serialize: ((data: unknown) => string) | undefined;
    return (data) => (serialize ??= compileSerializer({ ...route, httpStatus }))(data);
  });
  drainUnreadBodies(server.server, clock);
  if (options.bodyRate)
    detectSlowBodies(server.server, clock, options.bodyRate, (socket) =>
      refuse(Object.assign(new Error("slow body"), { code: SLOW_BODY }), socket),
    );
  const connections = new HttpConnections(server.server);
  server.removeAllContentTypeParsers();
  server.addContentTypeParser(
    options.jsonContentType,
    { parseAs: "buffer" },
    (request, body: Buffer, done) => {
      try {
        done(null, options.parseJson(body, request));
      } catch (error) {
        done(error instanceof Error ? error : new Error("the body cannot be read"));
      }
    },
  );
  const { allBodies } = options;
  if (allBodies) {
    const budget = new BodyBudget(allBodies);
    server.addHook("preParsing", (request, reply, payload, done) => {
      // A route with a higher limit of its own does not collect the body in memory.
      if (request.routeOptions.bodyLimit > allBodies.bytesMax) return done(null, payload);
      const { stream, release } = budget.count(payload, () => allBodies.findSender(request));
      connections.onEnd(request.raw.socket, reply.raw, release);
      done(null, stream);
    });
  }
  server.addHook("onRequest", (request, reply, done) => {
    reply.header("x-request-id", request.id).header("x-content-type-options", "nosniff");
    done();
  });
  let stopGrace: (() => void) | undefined;
  server.addHook("preClose", async () => {
    options.onClosing();
    stopGrace = clock.setTimer(options.closeGraceMs, () => connections.destroyAll());
    connections.close();
  });
  server.addHook("onClose", async () => stopGrace?.());
  return { server, connections };
}

/** Returns the request id of the client if it is safe for the log, otherwise a new one. */
function chooseRequestId(header: string | string[] | undefined): string {
  return typeof header === "string" && /^[A-Za-z0-9._:-]{1,128}$/.test(header)
    ? header
    : randomUUID();
}
