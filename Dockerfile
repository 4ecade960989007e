# Kept small, because the checks of the project do not build it: they have no container engine.
# Both stages have one base, the version of the development dependency `node`. The digest is that of the index of all
# platforms: `docker buildx imagetools inspect node:24.21.0-slim` prints it.
FROM node:24.21.0-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20 AS build
WORKDIR /app
COPY package.json package-lock.json ./
# The scripts of the project are copied with the next step.
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm prune --omit=dev && rm -f node_modules/@twinkeep/device

FROM node:24.21.0-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
ENV NODE_ENV=production HOST=0.0.0.0 DATA_DIR=/data
WORKDIR /app
COPY --from=build /app/package.json /app/CHANGELOG.md /app/LICENSE ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY --from=build /app/proto ./proto
RUN mkdir /data && chown node:node /data
USER node
VOLUME /data
EXPOSE 8080 1883
CMD ["node", "--max-semi-space-size=64", "dist/cli/main.js", "serve"]
