import { afterEach, beforeEach, expect, it } from "vitest";
import { BerthError } from "../../src/base/errors.ts";
import { INSTANCE } from "../../src/controller/labels.ts";
import type {
  BuildImageOptions,
  BuildOutput,
  ContainerRuntime,
  RegistryAuth,
} from "../../src/controller/runtime/port.ts";
import { randomInstance } from "../support/random-instance.ts";

export interface BuildHarness {
  /** Returns the build context, with the same bytes at each call. */
  context(): AsyncIterable<Uint8Array>;
  /** The names of the Dockerfiles in the build context. Each key tells what a build with the Dockerfile does. */
  readonly dockerfiles: {
    /**
     * A Dockerfile that uses the build argument WHO and prints "made for WHO". Containers of its image listen on
     * 8080.
     */
    readonly works: string;
    /** A Dockerfile with a step that prints "no such module" and exits with 7. */
    readonly fails: string;
    /** A Dockerfile whose second line is not an instruction. */
    readonly unreadable: string;
    /** A Dockerfile whose base image does not exist in the registry. */
    readonly noBase: string;
    /** A Dockerfile whose base image can be pulled only with the credentials `auth`. */
    readonly privateBase: string;
    /** A Dockerfile with a step that prints "waiting", and never ends. */
    readonly waits: string;
  };
  readonly auth: RegistryAuth;
  /** Removes the private base image that a build of the Dockerfile `privateBase` has pulled. */
  forgetPrivateBase(): Promise<void>;
  /** Adds a tag to an image, as a user does. */
  tag(image: string, tag: string): Promise<void>;
}

/** Checks the behaviour of `buildImage`, `listImages`, `freeBytes`, and of `removeImage` on images that were built. */
export function buildContract(
  open: () => { readonly runtime: ContainerRuntime; readonly builds: BuildHarness },
  builder: BuildImageOptions["builder"],
): void {
  const signal = new AbortController().signal;
  let runtime: ContainerRuntime;
  let builds: BuildHarness;
  let instance: string;
  let tag: string;

  beforeEach(() => {
    ({ runtime, builds } = open());
    instance = randomInstance();
    tag = `berth-${instance}/contract:1`;
  });
  afterEach(async () => {
    for (const container of await runtime.listContainers({ instance }, signal))
      await runtime.removeContainer(container.id, signal);
    for (const image of await runtime.listImages({ instance }, signal))
      await runtime.removeImage(image.id, signal);
    expect(await runtime.listImages({ instance }, signal)).toEqual([]);
  });

  function options(dockerfile: string, changes: Partial<BuildImageOptions> = {}) {
    return {
      tag,
      dockerfile,
      args: {},
      builder,
      auths: [],
      ...changes,
    };
  }

  async function build(dockerfile: string, changes: Partial<BuildImageOptions> = {}) {
    const output: BuildOutput[] = [];
    const result = await runtime.buildImage(
      builds.context(),
      options(dockerfile, changes),
      (line) => output.push(line),
      signal,
    );
    return { ...result, output };
  }

  async function failure(dockerfile: string, changes: Partial<BuildImageOptions> = {}) {
    const error: unknown = await build(dockerfile, changes).catch((reason: unknown) => reason);
    if (!(error instanceof BerthError)) throw new Error("the build did not fail as it should");
    expect(await runtime.inspectImage(tag, signal)).toBeUndefined();
    return error;
  }

  async function containerOf(image: string) {
    const network = `contract-${instance}`;
    await runtime.ensureNetwork(network, { [INSTANCE]: instance }, signal);
    return runtime.createContainer(
      {
        name: `contract-${instance}`,
        image,
        labels: { [INSTANCE]: instance },
        env: [],
        network,
        aliases: [],
        mounts: [],
        publish: [],
        stopGraceMs: 1_000,
      },
      signal,
    );
  }

  it("buildImage creates an image, and emits the steps and the lines of output in order", async () => {
    const { imageId, bytes, output } = await build(builds.dockerfiles.works, {
      args: { WHO: instance },
    });
    expect(imageId).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(bytes).toBeGreaterThan(0);
    expect((await runtime.inspectImage(tag, signal))?.id).toBe(imageId);
    const steps = output.flatMap((line) => (line.type === "step" ? [line] : []));
    expect(steps.length).toBeGreaterThan(1);
    expect(steps.map((step) => step.number)).toEqual(steps.map((_, index) => index + 1));
    for (const step of steps) expect(step.total).toBe(steps.length);
    expect(steps[0]?.text).toMatch(/^FROM /);
    const made = output.findIndex(
      (line) => line.type === "log" && line.text.startsWith("made for "),
    );
    expect(output[made]?.text).toBe(`made for ${instance}`);
    expect(made).toBeGreaterThan(output.findIndex((line) => line.type === "step"));

    const id = await containerOf(tag);
    await runtime.startContainer(id, signal);
    const [running] = await runtime.listContainers({ instance }, signal);
    expect(running).toMatchObject({ image: tag, imageId, state: "running" });
    await runtime.removeContainer(id, signal);
    await runtime.removeNetwork(`contract-${instance}`, signal);
  });

  it("listImages lists the images that this instance's builds have tagged, with their tags, sizes and times", async () => {
    const { imageId, bytes } = await build(builds.dockerfiles.works, { args: { WHO: instance } });
    expect(await runtime.listImages({ instance }, signal)).toEqual([
      {
        id: imageId,
        tags: [tag],
        bytes,
        createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      },
    ]);
    expect(await runtime.listImages({ instance: "00000000" }, signal)).toEqual([]);
  });

  it("listImages omits an image whose tag has moved to a newer image, but the older image is kept", async () => {
    const first = await build(builds.dockerfiles.works, { args: { WHO: "first" } });
    const second = await build(builds.dockerfiles.works, { args: { WHO: "second" } });
    expect(second.imageId).not.toBe(first.imageId);
    const tags = async () =>
      Object.fromEntries(
        (await runtime.listImages({ instance }, signal)).map((image) => [image.id, image.tags]),
      );
    expect(await tags()).toEqual({ [second.imageId]: [tag] });

    expect(await runtime.removeImage(first.imageId, signal)).toBe(true);
    expect(await runtime.removeImage(first.imageId, signal)).toBe(false);
    expect(await tags()).toEqual({ [second.imageId]: [tag] });
    expect(await runtime.removeImage(tag, signal)).toBe(true);
    expect(await tags()).toEqual({});
  });

  it("removeImage removes an image by its id with all its tags, unless a container uses it", async () => {
    const { imageId } = await build(builds.dockerfiles.works, { args: { WHO: instance } });
    await builds.tag(imageId, `${tag}-again`);
    const id = await containerOf(tag);
    expect(await runtime.removeImage(imageId, signal)).toBe(false);
    expect((await runtime.listImages({ instance }, signal))[0]?.tags).toEqual([
      tag,
      `${tag}-again`,
    ]);
    await runtime.removeContainer(id, signal);
    await runtime.removeNetwork(`contract-${instance}`, signal);
    expect(await runtime.removeImage(imageId, signal)).toBe(true);
    expect(await runtime.listImages({ instance }, signal)).toEqual([]);
  });

  it("buildImage returns the same image for the same context", async () => {
    const first = await build(builds.dockerfiles.works, { args: { WHO: instance } });
    const again = await build(builds.dockerfiles.works, { args: { WHO: instance } });
    expect(again.imageId).toBe(first.imageId);
  });

  it("buildImage throws an error with the failed step, its exit code and its last lines", async () => {
    const error = await failure(builds.dockerfiles.fails);
    expect(error.code).toBe("build_failed");
    expect(error.message).toMatch(
      /^step \d of \d \(RUN .*\) failed with exit code 7; last lines: .*no such module$/,
    );
  });

  it("buildImage throws an error with the problem of an invalid Dockerfile and its position", async () => {
    const error = await failure(builds.dockerfiles.unreadable);
    expect(error.code).toBe("build_failed");
    expect(error.message).toMatch(/\bline 2\b/);
  });

  it("buildImage throws an error for a missing base image", async () => {
    expect((await failure(builds.dockerfiles.noBase)).code).toBe("image_not_found");
  });

  it("buildImage pulls a private base image with the credentials for its server only", async () => {
    const { privateBase } = builds.dockerfiles;
    const elsewhere = { ...builds.auth, server: "registry.example.org" };
    const wrong = { ...builds.auth, password: "wrong" };
    for (const auths of [[], [elsewhere], [wrong]]) {
      const error = await failure(privateBase, { auths });
      expect(error.code).toBe("registry_denied");
      expect(`${error.message}${error.hint}`).not.toContain(builds.auth.password);
    }
    const { imageId } = await build(privateBase, { auths: [elsewhere, builds.auth] });
    expect(await runtime.removeImage(imageId, signal)).toBe(true);
    await builds.forgetPrivateBase();
  });

  it("buildImage cancels the build when its signal aborts, and creates no image", async () => {
    const stop = new AbortController();
    const reason = new Error("no longer wanted");
    const building = runtime.buildImage(
      builds.context(),
      options(builds.dockerfiles.waits),
      (line) => {
        if (line.type === "log" && line.text === "waiting") stop.abort(reason);
      },
      stop.signal,
    );
    await expect(building).rejects.toBe(reason);
    expect(await runtime.inspectImage(tag, signal)).toBeUndefined();
    expect(await runtime.listImages({ instance }, signal)).toEqual([]);
  });

  it("buildImage starts no build if its signal has already aborted", async () => {
    const reason = new Error("no longer wanted");
    const aborted = AbortSignal.abort(reason);
    await expect(
      runtime.buildImage(builds.context(), options(builds.dockerfiles.works), () => {}, aborted),
    ).rejects.toBe(reason);
    expect(await runtime.inspectImage(tag, signal)).toBeUndefined();
  });

  it("buildImage rejects with the error of the build context if reading the context fails", async () => {
    const broken = new BerthError("archive_invalid", "the archive ends in the middle of a file");
    async function* context() {
      yield* builds.context();
      throw broken;
    }
    const building = runtime.buildImage(
      context(),
      options(builds.dockerfiles.works),
      () => {},
      signal,
    );
    await expect(building).rejects.toBe(broken);
    expect(await runtime.inspectImage(tag, signal)).toBeUndefined();
  });

  it("freeBytes returns the free space of the disk on which images are stored, or undefined if it is unknown", async () => {
    const free = await runtime.freeBytes(signal);
    expect(free === undefined || free > 0).toBe(true);
  });
}
