import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";

/** The way in which the registry answers a request for the archive. */
export type Delivery = "whole" | "cut" | "stalled";

/** An npm registry on the loopback address that offers one package. */
export class NodeRegistry implements AsyncDisposable {
  readonly #server: Server;
  readonly #archive: Buffer;
  /** The number of requests for the archive so far. */
  downloads = 0;
  delivery: Delivery = "whole";

  private constructor(server: Server, archive: Buffer) {
    this.#server = server;
    this.#archive = archive;
  }

  static async open(packageName: string, version: string, archive: Buffer): Promise<NodeRegistry> {
    const server = createServer();
    const registry = new NodeRegistry(server, archive);
    server.on("request", (request, response: ServerResponse) => {
      if (request.url?.endsWith(".tgz")) registry.#sendArchive(response);
      else if (request.url === `/${packageName}`)
        response.end(JSON.stringify(registry.#manifest(packageName, version)));
      else response.writeHead(404).end("{}");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return registry;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the registry is closed");
    return `http://127.0.0.1:${address.port}`;
  }

  get integrity(): string {
    return `sha512-${createHash("sha512").update(this.#archive).digest("base64")}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, "close");
  }

  #manifest(name: string, version: string) {
    const dist = { tarball: `${this.url}/${name}.tgz`, integrity: this.integrity };
    return {
      name,
      "dist-tags": { latest: version },
      versions: { [version]: { name, version, dist } },
    };
  }

  #sendArchive(response: ServerResponse): void {
    this.downloads += 1;
    response.writeHead(200, { "Content-Length": this.#archive.length });
    if (this.delivery === "whole") {
      response.end(this.#archive);
      return;
    }
    response.write(this.#archive.subarray(0, this.#archive.length >> 1), () => {
      if (this.delivery === "cut") response.destroy();
    });
  }
}
