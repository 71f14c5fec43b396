import { expect, it } from "vitest";
import { RootFs } from "../../scripts/base-image.mjs";
import { systemClock } from "../../src/base/clock.ts";
import { DockerRuntime } from "../../src/controller/runtime/docker-runtime.ts";
import type { BuildImageOptions } from "../../src/controller/runtime/port.ts";
import { DedicatedEngine } from "../support/dedicated-engine.ts";
import { ensureTestImages, SHELL } from "../support/images.ts";

const signal = new AbortController().signal;

it("the failure of a build is not attributed to its source if the engine is stopping", async () => {
  await using engine = await DedicatedEngine.start();
  await ensureTestImages(engine.host);
  await using runtime = new DockerRuntime({ host: engine.host, clock: systemClock });

  /** Builds an image with the given step, runs `act` during the build, and returns the result of the build. */
  async function interrupted(
    builder: BuildImageOptions["builder"],
    step: string,
    act: () => Promise<unknown>,
  ): Promise<unknown> {
    let acted: Promise<unknown> | undefined;
    async function* context() {
      yield new RootFs().file("Dockerfile", `FROM ${SHELL}\nRUN ${step}\n`).tar();
    }
    const ended = await runtime
      .buildImage(
        context(),
        {
          tag: "berth.test/stopped:1",
          dockerfile: "Dockerfile",
          args: {},
          builder,
          auths: [],
        },
        (line) => {
          if (line.type === "log" && line.text === "waiting") acted ??= act();
        },
        signal,
      )
      .catch((error: unknown) => error);
    await acted;
    return ended;
  }

  // A program that handles SIGTERM and exits with its own code.
  const polite = "trap 'exit 1' TERM; echo waiting; while :; do sleep 0.1; done";
  for (const builder of ["classic", "buildkit"] as const)
    for (const step of ["echo waiting; sleep 600", polite]) {
      expect(await interrupted(builder, step, () => engine.stop())).toMatchObject({
        code: "engine_unreachable",
      });
      await engine.start();
    }
  // The build ends with code 137 without a stop of the engine, so the step itself has failed.
  const ends = await interrupted("classic", "echo waiting; exit 137", async () => {});
  expect(ends).toMatchObject({ code: "build_failed", details: { exitCode: 137 } });
});
