# This project with its environment: the commands, dbt and the embedded Spark. compose.yaml has the parts around it.
FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 1000 headwaters \
    && install --directory --owner headwaters /lake
USER headwaters
WORKDIR /home/headwaters/project
COPY --chown=headwaters . .
RUN make setup
ENV PATH=/home/headwaters/project/.venv/bin:$PATH \
    HEADWATERS_LAKE=/lake
ENTRYPOINT ["headwaters"]
CMD ["--help"]
