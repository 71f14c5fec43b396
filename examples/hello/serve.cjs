// The web server of the example, for images that contain Node instead of busybox. It serves the files that exist when
// it starts. Usage: node serve.cjs PORT FOLDER
const { readdirSync, readFileSync } = require("node:fs");
const { createServer } = require("node:http");
const path = require("node:path");

const [port, folder] = process.argv.slice(2);
const types = { ".html": "text/html; charset=utf-8", ".css": "text/css", ".svg": "image/svg+xml" };
const files = new Map(
  readdirSync(folder).map((name) => [`/${name}`, readFileSync(path.join(folder, name))]),
);

createServer((request, response) => {
  const wanted = new URL(request.url, "http://localhost").pathname;
  const name = wanted === "/" ? "/index.html" : wanted;
  const content = files.get(name);
  response.statusCode = content ? 200 : 404;
  response.setHeader("Content-Type", (content && types[path.extname(name)]) || "text/plain");
  response.end(content ?? "not found\n");
}).listen(Number(port), () => process.stdout.write(`listening on ${port}\n`));

process.on("SIGTERM", () => process.exit(0));
