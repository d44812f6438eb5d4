"""The tenants, each with a schema of its own in PostgreSQL."""

from django_tenants.models import DomainMixin, TenantMixin


class Tenant(TenantMixin):
    """A tenant; its schema is created when it is saved."""

    auto_create_schema = True


class Domain(DomainMixin):
    """The host name of a tenant."""
