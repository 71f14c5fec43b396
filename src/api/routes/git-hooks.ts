import type { FastifyInstance } from "fastify";
import { Type } from "typebox";
import { BerthError, NotFoundError } from "../../base/errors.ts";
import type { GitSource } from "../../resources/app-source-spec.ts";
import { GitHookResponse } from "../../resources/wire/builds.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { AttemptLimiter } from "../auth/attempt-limiter.ts";
import { getClientAddress } from "../auth/client-address.ts";
import { isSignedHook } from "../auth/hook-signature.ts";
import { parseGitHook } from "../git-hook-event.ts";
import { createRequestSignal } from "../request-parameters.ts";
import { NameParams, NoQuery, responses } from "../route-schemas.ts";

/**
 * The maximum size of a push notification; a larger one is refused. GitHub sends up to 25 MiB, but only extremely long
 * lists of changed files exceed this size.
 */
const BODY_BYTES_MAX = 5 * 1024 * 1024;

const PushEvent = Type.Object({}, { additionalProperties: true });

/**
 * Receives push notifications of git servers. They are authenticated not by a token but by a signature of the body
 * with the App's hook secret. A notification only makes Berth check the source, so repeated ones are harmless.
 */
export async function gitHookRoutes(api: Api, context: ApiContext): Promise<void> {
  const { store, builds, clock, logger } = context;
  const limiter = new AttemptLimiter(clock, "calls with a wrong signature");

  await api.register(async (plugin: FastifyInstance) => {
    const scope: Api = plugin.withTypeProvider();
    scope.removeAllContentTypeParsers();
    // The signature covers the raw bytes, so the body is not parsed here.
    scope.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) => {
      done(null, body);
    });

    scope.post(
      "/api/hooks/git/:name",
      {
        config: { access: "public", documentedBody: PushEvent },
        bodyLimit: BODY_BYTES_MAX,
        schema: {
          summary: "Notify Berth of a push to the repository of an app",
          description:
            "For webhooks of GitHub, Gitea, Forgejo and GitLab, signed with the value of source.git.hookSecret (X-Hub-Signature-256, X-Gitea-Signature, X-Forgejo-Signature, X-Gitlab-Token). Needs no token.",
          tags: ["builds"],
          consumes: ["application/json"],
          params: NameParams,
          querystring: NoQuery,
          response: responses({ 200: GitHookResponse, 202: GitHookResponse }),
        },
      },
      async (request, reply) => {
        const { name } = request.params;
        const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
        await limiter.slowDown(createRequestSignal(reply, context.closing));
        const attempt = limiter.begin(getClientAddress(request));
        let isGenuine = false;
        let git: GitSource;
        try {
          const hook = requireHook(name);
          git = hook.git;
          isGenuine = isSignedHook(request.headers, body, hook.secret);
        } finally {
          attempt.end(isGenuine);
        }
        if (!isGenuine) {
          throw new BerthError("unauthorized", "the signature is missing or wrong", {
            hint: "give the webhook the value of the Secret that source.git.hookSecret names",
          });
        }
        const event = parseGitHook(request.headers, body);
        if (event.type === "ping") return { apps: [] };
        reply.code(202);
        if (event.type === "other") return { apps: [] };
        // The notification may contain other URLs of the repository than the spec of this App, so the URL in the spec
        // is added to them. All Apps that follow one of these URLs are refreshed.
        const apps = builds.refreshFollowers({ urls: [git.url, ...event.urls], ref: event.ref });
        logger.info({ app: name, ref: event.ref, apps }, "received a push notification");
        return { apps };
      },
    );
  });

  /**
   * Returns the app's git source and the value of its hook secret. If the app, the source or the secret is missing,
   * throws one and the same NotFoundError, so that callers cannot find out which apps exist.
   */
  function requireHook(name: string): { git: GitSource; secret: string } {
    const nothing = new NotFoundError("there is no hook of this name");
    const source = store.get("App", name)?.spec.source;
    const git = source && "git" in source ? source.git : undefined;
    if (git?.hookSecret === undefined) throw nothing;
    const values = store.secrets.reveal(git.hookSecret) ?? {};
    const [only, ...others] = Object.values(values);
    const secret = values["value"] ?? (others.length === 0 ? only : undefined);
    if (secret === undefined || secret === "") {
      logger.warn({ app: name, secret: git.hookSecret }, "the hook secret has no usable value");
      throw nothing;
    }
    return { git, secret };
  }
}
