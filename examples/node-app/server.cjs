// A Node app without packages and without a Dockerfile. It listens where PORT says.
const { createServer } = require("node:http");

const port = Number(process.env.PORT ?? 3000);
const server = createServer((request, response) => {
  response.setHeader("Content-Type", "text/plain; charset=utf-8");
  response.end(`hello from Node ${process.versions.node}, ${request.url}\n`);
});
server.listen(port, () => process.stdout.write(`listening on ${port}\n`));

// Requests that are under way are answered before the process ends.
process.on("SIGTERM", () => server.close(() => process.exit(0)));
