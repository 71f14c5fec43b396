import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../../../../src/base/clock.ts";
import { ModelSourceResolver } from "../../../../../src/controller/models/hub/model-source-resolver.ts";
import { Hub } from "../../../../support/hub/hub.ts";
import {
  createResolverHarness,
  defaultSourceRequest,
} from "../../../../support/hub/resolver-harness.ts";

const bytes = Buffer.from("GGUF and what follows");
const sha256 = createHash("sha256").update(bytes).digest("hex");
const files = {
  "m-Q4_K_M.gguf": bytes,
  "m-Q8_0.gguf": Buffer.from("GGUF, larger"),
  "README.md": Buffer.from("# M"),
};

let hub: Hub;
beforeEach(async () => {
  hub = await Hub.open();
});
afterEach(() => hub[Symbol.asyncDispose]());

describe("a repository of the hub", () => {
  it("is resolved to a commit and a file with digest, size and URL", async () => {
    const repository = await hub.addRepository({ id: "org/name", files });
    const commit = repository.find("main")?.sha;
    expect(await createResolverHarness(hub.url).resolve({})).toEqual({
      key: expect.stringMatching(/^[0-9a-f]{32}$/),
      commit,
      quantization: "Q4_K_M",
      files: [
        {
          name: "m-Q4_K_M.gguf",
          sizeBytes: bytes.length,
          sha256,
          gitBlob: null,
          etag: null,
          location: { type: "url", url: `${hub.url}/org/name/resolve/${commit}/m-Q4_K_M.gguf` },
        },
      ],
    });
    // The hub gets one request, and sends no byte of the file.
    expect(hub.requests).toHaveLength(1);
  });

  it("uses git's own digest for a file outside of LFS", async () => {
    const content = Buffer.from("GGUF tiny");
    await hub.addRepository({ id: "org/name", files: { "tiny.gguf": { content, lfs: false } } });
    const {
      files: [file],
    } = await createResolverHarness(hub.url).resolve({});
    expect(file).toMatchObject({
      sha256: null,
      gitBlob: createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex"),
    });
  });

  it("is resolved at a tag, a branch with a slash, and a commit", async () => {
    const repository = await hub.addRepository({ id: "org/name", files, tags: ["v1.0"] });
    const first = repository.find("main")?.sha ?? "";
    const second = await repository.commit({ "n-Q4_0.gguf": bytes }, "refs/pr/1");
    const third = await repository.commit({ "o-Q8_0.gguf": bytes });
    const { resolve } = createResolverHarness(hub.url);
    const commitOf = async (revision?: string) => (await resolve({ revision })).commit;
    expect(await commitOf("v1.0")).toBe(first);
    expect(await commitOf("refs/pr/1")).toBe(second);
    expect(await commitOf(first)).toBe(first);
    expect(await commitOf()).toBe(third);
  });

  it("lists the parts of a split model in their order", async () => {
    await hub.addRepository({
      id: "org/name",
      files: {
        [part(2)]: Buffer.from("2"),
        [part(1)]: Buffer.from("1"),
        [part(3)]: Buffer.from("3"),
      },
    });
    const model = await createResolverHarness(hub.url).resolve({ sha256: sha("1") });
    expect(model.files.map((file) => file.name)).toEqual([part(1), part(2), part(3)]);
    expect(model.files.map((file) => file.sha256)).toEqual([sha("1"), sha("2"), sha("3")]);
  });

  it("is resolved to the same model key as another source whose files have the same bytes and names", async () => {
    const one = await hub.addRepository({ id: "org/name", files });
    await hub.addRepository({ id: "other/copy", files });
    const { resolve } = createResolverHarness(hub.url);
    const { key } = await resolve({});
    expect((await resolve({ source: "other/copy" })).key).toBe(key);
    expect((await resolve({ quantization: "Q8_0" })).key).not.toBe(key);
    await one.commit({ ...files, "README.md": Buffer.from("# Changed") });
    expect((await resolve({})).key).toBe(key);
    await one.commit({ ...files, "m-Q4_K_M.gguf": Buffer.from("GGUF changed") });
    expect((await resolve({})).key).not.toBe(key);
  });

  it("escapes special characters in URLs", async () => {
    await hub.addRepository({ id: "org/name", files: { "a b/m#1?x=%41 Q8_0.gguf": bytes } });
    const {
      files: [file],
    } = await createResolverHarness(hub.url).resolve({});
    const url = file?.location.type === "url" ? file.location.url : "";
    const answer = await fetch(url);
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(bytes);
  });

  it("ignores files whose names lead out of the model folder", async () => {
    await hub.addRepository({
      id: "org/name",
      files: { "../../m-Q4_K_M.gguf": bytes, "a//b-Q4_0.gguf": bytes, "ok-Q8_0.gguf": bytes },
    });
    const model = await createResolverHarness(hub.url).resolve({});
    expect(model.files.map((file) => file.name)).toEqual(["ok-Q8_0.gguf"]);
  });

  it("that was renamed is followed to its new name, which later requests use", async () => {
    await hub.addRepository({ id: "org/new-name", files, private: true });
    hub.move("org/name", "org/new-name");
    const model = await createResolverHarness(hub.url, { token: hub.token }).resolve({});
    expect(model.files[0]?.location).toMatchObject({
      url: expect.stringContaining("/org/new-name/resolve/"),
    });
  });

  it("is found even if its name is written in another case", async () => {
    await hub.addRepository({ id: "Org/Name-GGUF", files });
    const model = await createResolverHarness(hub.url).resolve({ source: "org/name-gguf" });
    expect(model.files[0]?.location).toMatchObject({
      url: expect.stringContaining("/Org/Name-GGUF/resolve/"),
    });
  });

  it.each(["", "/resolve/v1/m-Q8_0.gguf", "/blob/v1/m-Q8_0.gguf"])(
    "is recognised by the URL of its page%s",
    async (page) => {
      const repository = await hub.addRepository({ id: "org/name", files, tags: ["v1"] });
      const commit = repository.find("v1")?.sha;
      const model = await createResolverHarness(hub.url).resolve({
        source: `${hub.url}/org/name${page}`,
      });
      expect(model).toMatchObject({ commit, quantization: page === "" ? "Q4_K_M" : "Q8_0" });
    },
  );
});

describe("a digest in the spec", () => {
  it("is accepted if the hub reports the same digest", async () => {
    await hub.addRepository({ id: "org/name", files });
    const {
      files: [file],
    } = await createResolverHarness(hub.url).resolve({ sha256 });
    expect(file?.sha256).toBe(sha256);
  });

  it("causes the error digest_mismatch if the hub reports another digest", async () => {
    await hub.addRepository({ id: "org/name", files });
    const wanted = "0".repeat(64);
    expect(await createResolverHarness(hub.url).refusal({ sha256: wanted })).toMatchObject({
      code: "digest_mismatch",
      message: `m-Q4_K_M.gguf of org/name has the sha256 ${sha256}, but spec.sha256 is ${wanted}`,
    });
  });
});

describe("the token for the hub", () => {
  it("gives access to a private repository, whether a request or the settings contain the token", async () => {
    await hub.addRepository({ id: "org/name", files, private: true });
    const own = await createResolverHarness(hub.url).resolve({ token: hub.token });
    const ofTheHub = await createResolverHarness(hub.url, { token: hub.token }).resolve({});
    expect(ofTheHub).toEqual(own);
  });

  it("in the settings may end with a newline", async () => {
    await hub.addRepository({ id: "org/name", files, private: true });
    const model = await createResolverHarness(hub.url, { token: `${hub.token}\n` }).resolve({});
    expect(model.files[0]?.sha256).toBe(sha256);
  });

  it("in a request takes precedence over the token in the settings", async () => {
    await hub.addRepository({ id: "org/name", files, private: true });
    const model = await createResolverHarness(hub.url, { token: "hf_other" }).resolve({
      token: hub.token,
    });
    expect(model.files[0]?.sha256).toBe(sha256);
  });

  it("in the settings is used for downloads from the hub only", async () => {
    await hub.addRepository({ id: "org/name", files });
    await using other = await Hub.open();
    const sources = new ModelSourceResolver({
      endpoint: hub.url,
      token: hub.token,
      clock: systemClock,
    });
    const model = async (source: string) =>
      await sources.resolve({ ...defaultSourceRequest, source }, new AbortController().signal);
    const fromHub = await model("org/name");
    const fromElsewhere = await model(await other.addFile("/m.gguf", bytes));
    expect(sources.tokenFor(fromHub, undefined)).toBe(hub.token);
    expect(sources.tokenFor(fromHub, "hf_own")).toBe("hf_own");
    expect(sources.tokenFor(fromElsewhere, undefined)).toBeUndefined();
    expect(sources.tokenFor(fromElsewhere, "own")).toBe("own");
  });

  it("is sent to no server but the hub, even after a redirect", async () => {
    const elsewhere = await Hub.open();
    await using _ = elsewhere;
    await elsewhere.addRepository({ id: "org/name", files });
    hub.faults.add({
      on: "api",
      type: "redirect",
      to: `${elsewhere.url}/api/models/org/name?blobs=true`,
    });
    const model = await createResolverHarness(hub.url, { token: hub.token }).resolve({});
    expect(model.quantization).toBe("Q4_K_M");
    expect(hub.requests.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${hub.token}`,
    ]);
    expect(elsewhere.requests.map(({ headers }) => headers.authorization)).toEqual([undefined]);
  });

  it("is not sent to the target of a redirect, and the error explains that the target requires a token", async () => {
    const elsewhere = await Hub.open();
    await using _ = elsewhere;
    hub.faults.add({
      on: "api",
      type: "redirect",
      to: `${elsewhere.url}/api/models/org/name?blobs=true`,
    });
    const { code, message } = await createResolverHarness(hub.url, { token: hub.token }).refusal(
      {},
    );
    expect(code).toBe("hub_denied");
    expect(message).toContain(
      `redirects to ${new URL(elsewhere.url).host}, which requires a token`,
    );
  });

  it("appears in no error", async () => {
    for (const type of ["reset", "page", "loop"] as const) {
      hub.faults.clear();
      hub.faults.add({ on: "api", type });
      const error = await createResolverHarness(hub.url).refusal({ token: "hf_secret" });
      expect(JSON.stringify([error.message, error.hint, error.details])).not.toContain("hf_secret");
    }
  });
});

describe("a gated repository", () => {
  it("causes, for a request without a token, an error with the URL of the terms of use", async () => {
    await hub.addRepository({ id: "org/name", files, gated: "auto" });
    expect(await createResolverHarness(hub.url).refusal({})).toMatchObject({
      code: "hub_denied",
      message: "org/name is gated: its files need a token",
      hint: `accept the repository's terms at ${hub.url}/org/name, and set credential to a Secret with a token of the account that accepted them, or set HF_TOKEN`,
    });
  });

  it("causes an error if the account of the token has no access, and the error states this", async () => {
    await hub.addRepository({ id: "org/name", files, gated: "manual" });
    expect(await createResolverHarness(hub.url).refusal({ token: hub.token })).toMatchObject({
      code: "hub_denied",
      message: "org/name is gated, and the account of the token has no access to it",
      hint: `accept the repository's terms at ${hub.url}/org/name with the account of the token, and retry`,
    });
  });

  it("causes an error if its authors have not yet granted access", async () => {
    await hub.addRepository({ id: "org/name", files, gated: "manual" });
    hub.faults.add({
      on: "resolve",
      type: "status",
      status: 403,
      headers: {
        "x-error-code": "GatedRepo",
        "x-error-message":
          "Your request to access model org/name is awaiting a review from the repo authors.",
      },
    });
    expect((await createResolverHarness(hub.url).refusal({ token: hub.token })).message).toBe(
      "org/name is gated, and its authors have not yet granted the request for access",
    );
  });

  it("is accessible once the account has access, and no token is sent to the CDN", async () => {
    const repository = await hub.addRepository({ id: "org/name", files, gated: "auto" });
    repository.authorised = true;
    const model = await createResolverHarness(hub.url).resolve({ token: hub.token });
    expect(model.files[0]?.sha256).toBe(sha256);
    // The hub redirected the request to the file, and the redirect was not followed.
    expect(hub.requests.map(({ method }) => method)).toEqual(["GET", "HEAD"]);
    expect(hub.at("cdn")).toEqual([]);
  });
});

describe("a list of files without sizes and digests, as some mirrors return it", () => {
  it.each(["direct", "relative-redirect"] as const)(
    "is completed by a request for each file (the hub's answer is %s)",
    async (kind) => {
      hub.smallFiles = kind;
      const content = Buffer.from("GGUF small");
      const repository = await hub.addRepository({
        id: "org/name",
        files: { "a-Q8_0.gguf": bytes, "b-Q4_0.gguf": { content, lfs: false } },
      });
      hub.faults.add({
        on: "api",
        type: "status",
        status: 200,
        body: JSON.stringify({
          sha: repository.find("main")?.sha,
          siblings: [{ rfilename: "a-Q8_0.gguf" }, { rfilename: "b-Q4_0.gguf" }],
        }),
      });
      const { resolve } = createResolverHarness(hub.url);
      expect((await resolve({ quantization: "Q8_0" })).files[0]).toMatchObject({
        sizeBytes: bytes.length,
        sha256,
        gitBlob: null,
      });
      expect((await resolve({ quantization: "Q4_0" })).files[0]).toMatchObject({
        sizeBytes: content.length,
        sha256: null,
        gitBlob: repository.file("b-Q4_0.gguf").oid,
      });
      expect(hub.at("cdn")).toEqual([]);
    },
  );
});

describe("the error for a model source that cannot be resolved", () => {
  it("mentions that a missing repository may be private, if the request has no token", async () => {
    expect(await createResolverHarness(hub.url).refusal({ source: "org/none" })).toMatchObject({
      code: "hub_not_found",
      message:
        "org/none does not exist, or is private: without a token, the hub does not say which",
    });
  });

  it("states that the repository does not exist, if the request has a token", async () => {
    expect(
      await createResolverHarness(hub.url).refusal({ source: "org/none", token: hub.token }),
    ).toMatchObject({
      code: "hub_not_found",
      message: "there is no repository org/none",
    });
  });

  it("states that the hub does not accept an invalid token, even for a public repository", async () => {
    await hub.addRepository({ id: "org/name", files });
    expect(await createResolverHarness(hub.url).refusal({ token: "hf_wrong" })).toMatchObject({
      code: "hub_denied",
      message: `${new URL(hub.url).host} does not accept the token`,
    });
  });

  it.each(["api", "resolve"] as const)(
    "states that the hub does not accept an expired token, for whichever request it is refused (here %s)",
    async (on) => {
      await hub.addRepository({ id: "org/name", files, gated: "auto" });
      const code = on === "api" ? "RepoNotFound" : "GatedRepo";
      hub.faults.add({ on, type: "status", status: 401, headers: { "x-error-code": code } });
      expect((await createResolverHarness(hub.url).refusal({ token: hub.token })).message).toBe(
        `${new URL(hub.url).host} does not accept the token`,
      );
    },
  );

  it("names the requested revision if it does not exist", async () => {
    await hub.addRepository({ id: "org/name", files });
    expect(await createResolverHarness(hub.url).refusal({ revision: "v9" })).toMatchObject({
      code: "hub_not_found",
      message: "org/name has no branch, tag or commit v9",
    });
  });

  it("names the requested file and revision if the file does not exist", async () => {
    await hub.addRepository({ id: "org/name", files, tags: ["v1"] });
    expect(
      await createResolverHarness(hub.url).refusal({ file: "m-Q5_0.gguf", revision: "v1" }),
    ).toMatchObject({
      code: "hub_not_found",
      message: 'org/name at v1 has no file m-Q5_0.gguf; did you mean "m-Q8_0.gguf"?',
      hint: "the repository has m-Q4_K_M.gguf, m-Q8_0.gguf",
    });
  });

  it("states that the hub has disabled the repository", async () => {
    const repository = await hub.addRepository({ id: "org/name", files });
    repository.disabled = true;
    expect((await createResolverHarness(hub.url).refusal({})).message).toBe(
      "org/name has been disabled by the hub",
    );
  });

  it("has the code invalid_spec if the repository has several models, and the spec chooses none", async () => {
    await hub.addRepository({ id: "org/name", files: { "a.gguf": bytes, "b.gguf": bytes } });
    expect((await createResolverHarness(hub.url).refusal({})).code).toBe("invalid_spec");
  });

  it("has the code invalid_spec if the source ends with a colon and a quantization", async () => {
    expect((await createResolverHarness(hub.url).refusal({ source: "org/name:Q4_0" })).code).toBe(
      "invalid_spec",
    );
  });
});

function sha(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function part(index: number): string {
  return `q4/m-Q4_K_M-0000${index}-of-00003.gguf`;
}
