import type Docker from "dockerode";
import { expect, test } from "vitest";
import { BerthProcess } from "../support/berth-process.ts";
import { ensureTestImages, NODE_WEB } from "../support/images.ts";
import { startRegistry } from "../support/registry.ts";
import { visit } from "../support/traffic.ts";

/** Tests of tags that move to another image, with a real engine, a real registry and a real Caddy. */

/** Makes an image that answers with `body`, and tags it with the given name. */
async function makeImage(docker: Docker, name: string, body: string): Promise<void> {
  const container = await docker.createContainer({ Image: NODE_WEB });
  const [repo, tag] = [name.slice(0, name.lastIndexOf(":")), name.slice(name.lastIndexOf(":") + 1)];
  await container.commit({ repo, tag, changes: `ENV BODY=${body}` });
  await container.remove();
}

test("the new image of a moved tag is used at a deploy, and not after a crash or the removal of a container", async () => {
  await using berth = await BerthProcess.open({ ingress: "process" });
  await ensureTestImages(berth.dockerHost);
  await using registry = await startRegistry();
  const at = { port: berth.ingressPort, host: "web.localhost", path: "/" };
  const local = "berth.test/moved-tags:latest";
  const publish = async (body: string) => {
    await makeImage(berth.docker, local, body);
    return registry.push(berth.docker, local);
  };
  const image = await publish("one");
  const ids = async () => new Set((await berth.containers("web")).map(({ ImageID: id }) => id));
  const settled = () => berth.until("one version runs", async () => (await ids()).size === 1);
  const wait = { wait: true, timeout: "60s" } as const;

  await berth.client.apps.create({ name: "web", image, port: 8080, replicas: 2 }, wait);
  expect((await visit(at)).body).toBe("one");
  const [first] = await ids();

  // Berth replaces a removed or a crashed container by one of the same image, although the engine has a newer image.
  await publish("two");
  const [gone, crashed] = await berth.containers("web");
  await berth.docker.getContainer(gone?.Id ?? "").remove({ force: true });
  await berth.docker.getContainer(crashed?.Id ?? "").kill();
  await berth.until("both run again", async () => {
    const containers = await berth.containers("web");
    const isNew = containers.every(({ Id: id }) => id !== gone?.Id);
    return isNew && containers.filter(({ State: state }) => state === "running").length === 2;
  });
  expect([...(await ids())]).toEqual([first]);

  const deployed = await berth.client.apps.deploy("web", { image }, wait);
  expect(deployed).toMatchObject({ app: { ready: true, resolved_image: { engine_only: false } } });
  expect((await visit(at)).body).toBe("two");
  await settled();
  const { revisions } = await berth.client.apps.revisions("web");
  expect(revisions.map((revision) => revision.image_id)).toEqual([...(await ids()), first]);
  expect(revisions.every(({ digest }) => digest?.startsWith("sha256:"))).toBe(true);

  // A deploy without a body resolves the same reference again. The tag has not moved, so nothing changes.
  const before = (await berth.containers("web")).map(({ Id: id }) => id).toSorted();
  await berth.client.apps.deploy("web", {}, wait);
  expect((await berth.containers("web")).map(({ Id: id }) => id).toSorted()).toEqual(before);

  await berth.client.apps.rollback("web", 1, wait);
  expect((await visit(at)).body).toBe("one");
  await settled();
  expect([...(await ids())]).toEqual([first]);
});

test("an image that only the engine has is used, and the response to the deploy says so", async () => {
  await using berth = await BerthProcess.open();
  await ensureTestImages(berth.dockerHost);
  await using registry = await startRegistry();
  const image = `${registry.address}/only-here:latest`;
  await makeImage(berth.docker, image, "mine");
  const created = await berth.cli(["create", "web", "--image", image, "--port", "8080", "--wait"]);
  expect(created).toMatchObject({ code: 0 });
  const deployed = await berth.client.apps.deploy("web", { image }, { wait: true, timeout: "60s" });
  expect(deployed).toMatchObject({
    app: {
      ready: true,
      message: expect.stringContaining(`no registry has ${image}`),
      resolved_image: { engine_only: true },
    },
  });
  await berth.client.apps.delete("web", { wait: true });
  await berth.docker.getImage(image).remove({ force: true });
});
